"""What a server's clock says, as far as this process can tell: its own clock with the measured offset."""

import asyncio
import contextlib
import time

import psycopg

from mqueue.core.errors import ShardUnavailable
from shards.pools import Database
from shards.tasks import end

MEASURE_EVERY_S = 30.0
TRIES = 10
NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


class Clock:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._offset_us = self._error_us = 0
        self.is_measured = False
        self._measuring: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._measuring = asyncio.create_task(self._keep_measuring(), name=f"clock of {self._database.name}")

    async def close(self) -> None:
        await end(self._measuring)

    def now_us(self) -> int:
        return time.time_ns() // 1000 + self._offset_us

    def latest_us(self) -> int:
        """The server's clock shows no more than this: for times that must not come too early."""
        return self.now_us() + self._error_us

    def until_s(self, due_us: int) -> float:
        return (due_us - self.now_us()) / 1_000_000

    async def measure(self) -> None:
        """The answer that came back quickest is the most exact."""
        best = None
        async with self._database.connection() as connection:
            for _ in range(TRIES):
                before = time.time_ns() // 1000
                row = await (await connection.execute(NOW)).fetchone()
                after = time.time_ns() // 1000
                if row and (best is None or after - before < best[0]):
                    best = after - before, row[0] - (before + after) // 2
        if best:
            self._offset_us, self._error_us, self.is_measured = best[1], best[0] // 2, True

    async def _keep_measuring(self) -> None:
        while True:
            with contextlib.suppress(ShardUnavailable, psycopg.Error):
                await self.measure()
            await asyncio.sleep(MEASURE_EVERY_S)
