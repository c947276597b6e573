"""The lease daemon: ends leases whose deadline has passed, so that their messages come again or die."""

import asyncio

from daemons.base import Daemon
from mqueue.core.errors import ShardUnavailable
from mqueue.core.messages import DEFAULT_MAX_RETRIES
from shards.partitions import with_partitions
from shards.pools import Database
from shards.sql import statement

BATCH = 1_000
POLL_S = 0.5


class LeaseDaemon(Daemon):
    name = "leases"

    async def run_once(self) -> float:
        full = await asyncio.gather(*(self._lapse_on(shard) for shard in self.cluster.shards))
        return 0 if any(full) else POLL_S

    async def _lapse_on(self, shard: Database) -> bool:
        """True when there may be more. A shard that is down stops nobody else's leases."""

        async def lapse() -> tuple[int, int]:
            async with shard.connection() as connection:
                parameters = {"limit": BATCH, "max_retries": DEFAULT_MAX_RETRIES}
                row = await (await connection.execute(statement("lapse"), parameters)).fetchone()
            assert row
            return row[0], row[1]

        try:
            waiting, dead = await with_partitions(shard, (), lapse)
        except ShardUnavailable:
            return False
        return waiting + dead >= BATCH
