"""Takes over the logs of API processes that have died on this node, where no other API process is there to do it."""

from daemons.base import Daemon
from mqueue.core.conf import conf
from mqueue.engine.adopting import Adopting
from mqueue.engine.hot import Hot
from mqueue.hot.sets import ERRORS
from mqueue.wal.folder import WalDir
from shards.cluster import Cluster
from tenants.settings_cache import SettingsCache

LOOK_S, FINISH_S = 2.0, 0.25


class Heir(Daemon):
    kind = "flusher"
    name = "heir of the logs"

    def __init__(self, adopting: Adopting) -> None:
        self._adopting = adopting

    @classmethod
    def all_of(cls, cluster: Cluster, hot: Hot, settings: SettingsCache) -> list[Daemon]:  # noqa: ARG003
        return [cls(Adopting(WalDir(conf().wal_dir), cluster, hot))]

    async def run_once(self) -> float:
        try:
            return FINISH_S if await self._adopting.look() else LOOK_S
        except ERRORS:
            return LOOK_S

    async def leave(self) -> None:
        self._adopting.close()
