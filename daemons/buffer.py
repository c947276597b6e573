"""The flusher of buffered topics: commits what lies in a shard's buffer. One loop a shard; one is at work for it, and
others stand by."""

import contextlib

from daemons.base import Daemon
from mqueue.core.errors import ShardUnavailable, SlotMoved
from mqueue.engine.flushing import Flushing, Outrun
from mqueue.engine.hot import Hot
from mqueue.engine.topics import Topics
from mqueue.hot.buffer import Buffer
from mqueue.hot.sets import ERRORS
from shards.calls import fetch
from shards.cluster import Cluster
from shards.pools import Database
from shards.sql import statement
from tenants.settings_cache import SettingsCache

WAIT_S = 0.4  # for the next message, and then for a signal to stop
STANDBY_S, AWAY_S, HELD_S = 0.4, 0.5, 0.1
MANY, GATHER_S = 20, 0.01  # so many at once, and more are on their way: together they cost a third
FORGET_EVERY = 500  # rounds
PORTION = 10_000


class BufferFlusher(Daemon):
    kind = "flusher"

    def __init__(self, shard: Database, buffer: Buffer, flushing: Flushing) -> None:
        self.name = f"buffer of {shard.name}"
        self._shard, self._buffer, self._flushing = shard, buffer, flushing
        self._rounds = 0

    @classmethod
    def all_of(cls, cluster: Cluster, hot: Hot, settings: SettingsCache) -> list[Daemon]:
        topics = Topics(cluster, settings, auto_create_namespaces=False)
        return [
            cls(shard, hot.buffer(number), Flushing(shard, cluster, hot, topics))
            for number, shard in enumerate(cluster.shards)
        ]

    async def run_once(self) -> float:
        try:
            if not await self._buffer.own():
                return STANDBY_S
            await self._forget_marks()
            found = await self._flushing.flush(WAIT_S)
        except Outrun:
            return STANDBY_S  # somebody else is at work, whoever owns it
        except SlotMoved:
            return HELD_S  # by then we know where to
        except (*ERRORS, ShardUnavailable):
            return AWAY_S
        if self._flushing.is_held:
            return HELD_S
        return GATHER_S if found >= MANY else 0

    async def leave(self) -> None:
        with contextlib.suppress(*ERRORS):
            await self._buffer.disown()

    async def _forget_marks(self) -> None:
        self._rounds += 1
        if self._rounds % FORGET_EVERY == 0:
            await fetch(self._shard, statement("forget_marks"), {"limit": PORTION})
