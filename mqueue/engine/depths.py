"""What waits on each shard, counted when somebody asks, and never so often that the database would feel it."""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors

from mqueue.core.errors import ShardUnavailable
from shards.pools import Database
from shards.sql import statement

log = logging.getLogger(__name__)
LIMIT_MS = 4_000  # of the statement
PATIENCE_S = 2.0  # of whoever asks: then he gets the count before, if there is one
REST = 10  # times as long as a count took: it never takes more than a tenth of one core
STALE_S = 60.0  # older numbers are not shown: absent says that nobody knows


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows of namespace, topic, ready, scheduled, in flight, dead letters, age of the oldest."""

    at: float
    rows: list[Any]
    horizon_s: float  # for how long a transaction has held back who reads the log by txid


class Depths:
    def __init__(self, shard: Database, topics: int, statement_timeout_ms: int) -> None:
        self.shard = shard
        self._topics, self._limit_ms = topics, min(LIMIT_MS, statement_timeout_ms)
        self._counting: asyncio.Task[None] | None = None
        self._rests_until = 0.0
        self._last: Counted | None = None

    async def read(self) -> Counted | None:
        """None where the shard is down, or too much for the time that we take."""
        if self._counting is None and time.monotonic() >= self._rests_until:
            self._counting = asyncio.create_task(self._count(), name=f"count {self.shard.name}")
        if self._counting:
            await asyncio.wait([self._counting], timeout=PATIENCE_S)
        if self._last is None or not self.shard.is_up or time.monotonic() - self._last.at > STALE_S:
            return None
        return self._last

    async def _count(self) -> None:
        began = time.monotonic()
        try:
            self._last = Counted(began, *await self._fetch())
        except errors.QueryCanceled:
            log.warning("counting the messages of %s takes more than %d ms", self.shard.name, self._limit_ms)
        except (ShardUnavailable, psycopg.Error):
            self._last = None
        finally:
            self._counting = None
            self._rests_until = time.monotonic() + REST * (time.monotonic() - began)

    async def _fetch(self) -> tuple[list[Any], float]:
        """In a time limit of its own. Running into it says nothing about the shard: so the breaker must not see it."""
        limit = [str(self._limit_ms)]
        async with self.shard.connection() as connection:
            try:
                async with connection.transaction():
                    await connection.execute("SELECT set_config('statement_timeout', %s, true)", limit)
                    found = await connection.execute(statement("depths"), {"most": self._topics})
                    rows = await found.fetchall()
                    horizon = await (await connection.execute(statement("horizon"))).fetchone()
                    return rows, horizon[1] if horizon else 0.0
            except errors.QueryCanceled as error:
                too_long = error
        raise too_long
