"""What PostgreSQL's sessions wait for, sampled: pg_stat_activity every 50 ms."""

import threading
from collections import Counter
from contextlib import suppress

import psycopg

EVERY_S = 0.05
SHOWN = 5
ACTIVE = """\
SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU') FROM pg_stat_activity
WHERE state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


class Waits:
    """A thread that looks at the sessions while a measurement runs."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._seen: Counter[str] = Counter()
        self._looks = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> dict[str, float]:
        """How many sessions were in each state at a time, on average: the most frequent first."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        return {name: round(count / max(1, self._looks), 2) for name, count in self._seen.most_common(SHOWN)}

    def _look(self) -> None:
        with suppress(psycopg.OperationalError), psycopg.connect(self._database, autocommit=True) as connection:
            while not self._over.wait(EVERY_S):
                self._seen.update(name for (name,) in connection.execute(ACTIVE))
                self._looks += 1
