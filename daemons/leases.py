"""The lease daemon: ends leases whose deadline has passed and messages past their ttl. One loop a shard."""

import time

from daemons.base import Daemon
from daemons.sparing import Sparing
from mqueue.core.errors import ShardUnavailable
from mqueue.engine.failures import Settings, fail_overdue
from mqueue.engine.hot import Hot, Shard
from shards.cluster import Cluster
from shards.pools import Database
from tenants.settings_cache import SettingsCache

BATCH = 1_000
POLL_S = 0.5
LOOK_BACK_S = 5.0


class LeaseDaemon(Daemon):
    kind = "leases"

    def __init__(self, shard: Database, hot: Shard, settings: Settings) -> None:
        self._settings = settings
        self.name = f"{self.kind} of {shard.name}"
        self._shard, self._hot = shard, hot
        self._batch = BATCH
        self._everything = Sparing(POLL_S)
        self._seen_at = time.monotonic()
        self._more_of_old = False

    @classmethod
    def all_of(cls, cluster: Cluster, hot: Hot, settings: SettingsCache) -> list[Daemon]:
        return [cls(shard, hot[shard], settings.topic) for shard in cluster.shards]

    async def run_once(self) -> float:
        """Most that is overdue has been so for a moment only. What was locked or not committed then is found later."""
        try:
            if self._more_of_old or self._everything.is_due:
                with self._everything.look():
                    full = self._more_of_old = await self._end_overdue()
            else:
                full = await self._end_overdue(time.monotonic() - self._seen_at + LOOK_BACK_S)
        except ShardUnavailable:
            self._batch = max(1, self._batch // 2)  # perhaps it was too much for one statement's time
            return POLL_S
        self._batch = min(BATCH, self._batch * 2)
        return 0 if full else POLL_S

    async def _end_overdue(self, back_s: float | None = None) -> bool:
        """Whether there may be more."""
        began = time.monotonic()
        full = await fail_overdue(self._shard, self._hot, self._settings, self._batch, back_s) >= self._batch
        if not full:
            self._seen_at = began
        return full
