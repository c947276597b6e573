"""The flusher: folds what the statements noted of their counts into sums, and tells the planner when a table has grown.

One loop a shard.
"""

from psycopg import sql

from daemons.base import Daemon
from mqueue.core.errors import ShardUnavailable
from mqueue.engine.hot import Hot
from shards.cluster import Cluster
from shards.pools import Database
from shards.sql import statement
from tenants.settings_cache import SettingsCache

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
    def all_of(cls, cluster: Cluster, hot: Hot, settings: SettingsCache) -> list[Daemon]:  # noqa: ARG003
        return [cls(shard) for shard in cluster.shards]

    async def run_once(self) -> float:
        try:
            folded = await self._fold()
            await self._analyze_the_outgrown()
        except ShardUnavailable:
            return POLL_S
        return 0 if folded >= BATCH else POLL_S

    async def _analyze_the_outgrown(self) -> None:
        """Autovacuum would, within a minute or two: too late for a queue that fills in seconds."""
        async with self._shard.connection() as connection:
            found = await (await connection.execute(statement("outgrown"))).fetchall()
            for (table,) in found:
                await connection.execute(sql.SQL("ANALYZE {}").format(sql.SQL(table)))

    async def _fold(self) -> int:
        self._rounds += 1
        async with self._shard.connection() as connection:
            row = await (await connection.execute(statement("fold"), {"limit": BATCH})).fetchone()
            if self._rounds % FORGET_EVERY == 0:
                await connection.execute(statement("forget_empty"))
        assert row
        return int(row[0])
