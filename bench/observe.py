"""What a measurement cost: WAL, transactions, dead rows, CPU of each part, what sessions waited for and ran."""

import time
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.cpu import spent
from bench.service import Service
from bench.waits import Waits

SERVER = "SELECT pg_current_wal_lsn() - '0/0', pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
DEAD = "SELECT relname, n_dead_tup FROM pg_stat_user_tables WHERE n_dead_tup > 0 ORDER BY 2 DESC LIMIT 4"


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters at one moment."""

    wal: int
    transactions: int
    cpu: dict[str, float]
    at: float


class Observer:
    """Readings of one service, and of one of its databases, around a measurement."""

    def __init__(self, service: Service, database: str, client: int) -> None:
        self._service, self._client = service, client
        self._waits = Waits(database)
        self._connection = psycopg.connect(database, autocommit=True)
        self._first: Reading | None = None

    def begin(self) -> None:
        """The measured part begins."""
        self._first = self._read()
        self._waits.start()

    def end(self, messages: int) -> dict[str, Any]:
        """The measured part is over: what it cost a message."""
        first, last, each = self._first, self._read(), max(1, messages)
        assert first
        self._waits.stop()
        waits, statements = self._waits.found()
        dead = self._connection.execute(DEAD).fetchall()
        spent = {part: last.cpu[part] - was for part, was in first.cpu.items()}
        others = max(0.0, spent.pop("others") / (last.at - first.at))  # ticks are counted in arrears
        return {
            "wal_bytes": round((last.wal - first.wal) / each, 1),
            "transactions": round((last.transactions - first.transactions) / each, 4),
            "cpu_us": {part: round(1e6 * seconds / each, 2) for part, seconds in spent.items()},
            "cores_of_others": round(others, 2),
            "dead_rows": dict(dead),
            "waits": waits,
            "statements": statements,
        }

    def close(self) -> None:
        """Leave the database."""
        self._waits.stop()
        self._connection.close()

    def _read(self) -> Reading:
        row = self._connection.execute(SERVER).fetchone()
        assert row
        return Reading(int(row[0]), int(row[1]), spent(self._service, self._client), time.perf_counter())
