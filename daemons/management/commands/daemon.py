import argparse
from typing import Any

import uvloop
from django.core.management.base import BaseCommand

from daemons.base import Daemon, run_all
from daemons.buffer import BufferFlusher
from daemons.flusher import Flusher
from daemons.heirs import Heir
from daemons.leases import LeaseDaemon
from daemons.prefetcher import Prefetcher
from daemons.usage import UsageDaemon
from mqueue.core.conf import conf
from mqueue.engine.hot import Hot
from shards.cluster import Cluster
from tenants.settings_cache import SettingsCache

DAEMONS: tuple[type[Daemon], ...] = (Flusher, BufferFlusher, Heir, LeaseDaemon, Prefetcher, UsageDaemon)
KINDS = sorted({daemon.kind for daemon in DAEMONS})


class Command(BaseCommand):
    help = "Run one daemon, or all of them in one process, until SIGTERM. Running a second copy anywhere does no harm."
    requires_system_checks: list[str] = []  # a database that is down now is waited for, not an error

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", choices=[*KINDS, "all"], help="which one")

    def handle(self, *args: Any, **options: Any) -> None:
        uvloop.run(self._run(options["name"]))

    async def _run(self, name: str) -> None:
        cluster = Cluster(conf())
        hot = Hot(conf(), cluster)
        settings = SettingsCache(cluster.control, {})
        chosen = [daemon for daemon in DAEMONS if name in (daemon.kind, "all")]
        daemons = [one for daemon in chosen for one in daemon.all_of(cluster, hot, settings)]
        await run_all(cluster, hot, settings, daemons)
