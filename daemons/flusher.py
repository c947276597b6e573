"""The flusher: folds what the statements noted of their counts into sums. One loop a shard."""

from daemons.base import Daemon
from mqueue.core.errors import ShardUnavailable
from mqueue.engine.hot import Hot
from shards.cluster import Cluster
from shards.pools import Database
from shards.sql import statement

BATCH = 10_000
POLL_S = 0.5
FORGET_EVERY = 20  # rounds


class Flusher(Daemon):
    kind = "flusher"

    def __init__(self, shard: Database) -> None:
        self.name = f"{self.kind} of {shard.name}"
        self._shard = shard
        self._rounds = 0

    @classmethod
    def all_of(cls, cluster: Cluster, hot: Hot) -> list[Daemon]:  # noqa: ARG003
        return [cls(shard) for shard in cluster.shards]

    async def run_once(self) -> float:
        try:
            folded = await self._fold()
        except ShardUnavailable:
            return POLL_S
        return 0 if folded >= BATCH else POLL_S

    async def _fold(self) -> int:
        self._rounds += 1
        async with self._shard.connection() as connection:
            row = await (await connection.execute(statement("fold"), {"limit": BATCH})).fetchone()
            if self._rounds % FORGET_EVERY == 0:
                await connection.execute(statement("forget_empty"))
        assert row
        return int(row[0])
