"""The lease daemon: ends leases whose deadline has passed and messages past their ttl. One loop a shard."""

from daemons.base import Daemon
from mqueue.core.errors import ShardUnavailable
from mqueue.engine.failures import fail_overdue
from mqueue.engine.hot import Hot, Shard
from shards.cluster import Cluster
from shards.pools import Database

BATCH = 1_000
POLL_S = 0.5


class LeaseDaemon(Daemon):
    kind = "leases"

    def __init__(self, shard: Database, hot: Shard) -> None:
        self.name = f"{self.kind} of {shard.name}"
        self._shard, self._hot = shard, hot
        self._batch = BATCH

    @classmethod
    def all_of(cls, cluster: Cluster, hot: Hot) -> list[Daemon]:
        return [cls(shard, hot[shard]) for shard in cluster.shards]

    async def run_once(self) -> float:
        try:
            done = await fail_overdue(self._shard, self._hot, self._batch)
        except ShardUnavailable:
            self._batch = max(1, self._batch // 2)  # perhaps it was too much for one statement's time
            return POLL_S
        full = done >= self._batch
        self._batch = min(BATCH, self._batch * 2)
        return 0 if full else POLL_S
