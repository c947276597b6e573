"""The usage daemon: counts what topics have used, from the rows that the queue writes anyway. One loop a shard.

Rows of the log and of the events never change and carry their transaction. What lies between two snapshots is complete
and is counted once, however late it was committed, so that this costs producers and consumers nothing. A transaction
that is held open keeps the count back, and nothing is lost.
"""

from typing import Any

from psycopg import AsyncConnection, errors

from daemons.base import Daemon
from mqueue.core.errors import ShardUnavailable
from mqueue.engine.hot import Hot
from shards.cluster import Cluster
from shards.pools import Database
from shards.sql import statement
from tenants.settings_cache import SettingsCache

EVERY_S = 5.0
LIMIT_MS = 4_000
LONGEST = 1 << 40  # transactions of one count: no limit, unless a count takes too long
RANGES = 500  # that are summarized at a time


class UsageDaemon(Daemon):
    kind = "usage"

    def __init__(self, shard: Database) -> None:
        self.name = f"{self.kind} of {shard.name}"
        self._shard = shard
        self._span = LONGEST
        self._summarized: dict[str, int] = {}

    @classmethod
    def all_of(cls, cluster: Cluster, hot: Hot, settings: SettingsCache) -> list[Daemon]:  # noqa: ARG003
        return [cls(shard) for shard in cluster.shards]

    async def run_once(self) -> float:
        try:
            await self._summarize()
            is_behind = await self._count()
        except ShardUnavailable:
            return EVERY_S
        return 0 if is_behind else EVERY_S

    async def _count(self) -> bool:
        """Whether there is more to count at once. One that takes too long is tried again with less."""
        until = txid = 0
        async with self._shard.connection() as connection:
            try:
                async with connection.transaction():
                    await _limit(connection, "statement_timeout", LIMIT_MS)
                    mark = await (await connection.execute(statement("usage_mark"))).fetchone()
                    if mark is None:
                        return False
                    txid, at, ended = mark
                    until = min(ended, txid + self._span)
                    if until <= txid:
                        return False
                    window = {"txid": txid, "until": until, "at": at, "whole": until == ended}
                    await connection.execute(statement("usage_fold"), window)
            except errors.QueryCanceled:
                self._span = max(1, (until - txid) // 8)
                return self._span > 1
        self._span = min(LONGEST, self._span * 2)
        return bool(until < ended)

    async def _summarize(self) -> None:
        """Autovacuum would, once a fifth of a day's rows are new: until then each count would read all of these."""
        async with self._shard.connection() as connection:
            for index, full in await (await connection.execute(statement("usage_ranges"))).fetchall():
                first = self._summarized.get(index, 0)
                last = min(full, first + RANGES)
                if first == last:
                    continue
                ranges = {"index": index, "first": first, "last": last - 1}
                try:
                    async with connection.transaction():
                        await _limit(connection, "lock_timeout", 50)  # autovacuum has the table, and does the same
                        await connection.execute(statement("usage_summarize"), ranges)
                except (errors.LockNotAvailable, errors.UndefinedTable):
                    continue
                self._summarized[index] = last


async def _limit(connection: AsyncConnection[Any], setting: str, milliseconds: int) -> None:
    await connection.execute("SELECT set_config(%s, %s, true)", [setting, str(milliseconds)])
