"""The lease daemon: ends leases whose deadline has passed and messages past their ttl. One loop a shard."""

from daemons.base import Daemon
from mqueue.core.errors import ShardUnavailable
from mqueue.core.messages import DEFAULT_MAX_RETRIES
from shards.cluster import Cluster
from shards.partitions import with_partitions
from shards.pools import Database
from shards.sql import statement

BATCH = 1_000
POLL_S = 0.5


class LeaseDaemon(Daemon):
    kind = "leases"

    def __init__(self, shard: Database) -> None:
        self.name = f"{self.kind} of {shard.name}"
        self._shard = shard
        self._batch = BATCH

    @classmethod
    def all_of(cls, cluster: Cluster) -> list[Daemon]:
        return [cls(shard) for shard in cluster.shards]

    async def run_once(self) -> float:
        try:
            waiting, dead = await with_partitions(self._shard, (), self._lapse)
        except ShardUnavailable:
            self._batch = max(1, self._batch // 2)  # perhaps it was too much for one statement's time
            return POLL_S
        full = waiting + dead >= self._batch
        self._batch = min(BATCH, self._batch * 2)
        return 0 if full else POLL_S

    async def _lapse(self) -> tuple[int, int]:
        parameters = {"limit": self._batch, "max_retries": DEFAULT_MAX_RETRIES}
        async with self._shard.connection() as connection:
            row = await (await connection.execute(statement("lapse"), parameters)).fetchone()
        assert row
        return row[0], row[1]
