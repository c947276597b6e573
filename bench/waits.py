"""What PostgreSQL's sessions wait for and what they run, sampled: pg_stat_activity every 50 ms."""

import threading
from collections import Counter
from contextlib import suppress

import psycopg

EVERY_S = 0.05
SHOWN = 6
ACTIVE = """\
SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU'), left(split_part(query, E'\\n', 1), 70)
FROM pg_stat_activity WHERE state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
Shares = dict[str, float]


class Waits:
    """A thread that looks at the sessions while a measurement runs."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._waits: Counter[str] = Counter()
        self._statements: Counter[str] = Counter()
        self._looks = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def found(self) -> tuple[Shares, Shares]:
        """How many sessions waited for what, and ran what (by its first line), at a time: the most frequent first."""
        return self._shares(self._waits), self._shares(self._statements)

    def _shares(self, seen: Counter[str]) -> Shares:
        return {name: round(count / max(1, self._looks), 2) for name, count in seen.most_common(SHOWN)}

    def _look(self) -> None:
        with suppress(psycopg.OperationalError), psycopg.connect(self._database, autocommit=True) as connection:
            while not self._over.wait(EVERY_S):
                for wait, statement in connection.execute(ACTIVE):
                    self._waits[wait] += 1
                    self._statements[statement] += 1
                self._looks += 1
