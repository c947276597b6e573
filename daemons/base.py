"""What every daemon is: a `run_once` that returns how long to sleep, in a loop that a signal ends between rounds."""

import asyncio
import logging
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from mqueue.core import metrics
from mqueue.engine.hot import Hot
from shards.cluster import Cluster
from tenants.settings_cache import SettingsCache

log = logging.getLogger(__name__)
AFTER_ERROR_S = 1.0


class Daemon(ABC):
    """Two of a kind do no harm; a round that fails is tried again."""

    kind: ClassVar[str]
    name: str

    @classmethod
    @abstractmethod
    def all_of(cls, cluster: Cluster, hot: Hot, settings: SettingsCache) -> "list[Daemon]":
        """Those that one process runs: one, or one a shard, so that a shard that hangs holds up nobody else's."""

    @abstractmethod
    async def run_once(self) -> float:
        """One round of work; returns the seconds until the next."""

    async def leave(self) -> None:  # noqa: B027  most have nothing to give back
        """After the last round."""

    async def run(self, stop: asyncio.Event) -> None:
        log.info("%s: started", self.name)
        while not stop.is_set():
            try:
                pause = await self.run_once()
                metrics.ROUNDS.labels(self.name).inc()
            except Exception:
                log.exception("%s: a round failed; the next one follows in %.0f s", self.name, AFTER_ERROR_S)
                pause = AFTER_ERROR_S
            await _sleep(pause, stop)
        await self.leave()
        log.info("%s: stopped", self.name)


async def run_all(cluster: Cluster, hot: Hot, settings: SettingsCache, daemons: Sequence[Daemon]) -> None:
    """Until SIGINT or SIGTERM; each daemon finishes its round."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await cluster.open()
    await settings.open()
    await hot.open(listen=False)
    try:
        tell_ready()
        await asyncio.gather(*(daemon.run(stop) for daemon in daemons))
    finally:
        await hot.close()
        await settings.close()
        await cluster.close()


def tell_ready() -> None:
    """To whoever started us and named a file to look for."""
    if path := os.environ.get("MQUEUE_READY_FILE"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()


async def _sleep(seconds: float, stop: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass
