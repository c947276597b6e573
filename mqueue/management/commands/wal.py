import argparse
import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from django.core.management.base import BaseCommand, CommandError

from mqueue.core.conf import conf
from mqueue.core.errors import MqueueError
from mqueue.engine import records
from mqueue.engine.hot import Hot
from mqueue.engine.records import Record
from mqueue.engine.rescue import Rescue
from mqueue.engine.topics import Topics
from mqueue.wal import segments
from mqueue.wal.folder import WalDir, is_live
from mqueue.wal.segments import Segment, SegmentError
from shards.cluster import Cluster
from tenants.settings_cache import SettingsCache


class Command(BaseCommand):
    help = "Look into the write-ahead log of buffered topics under WAL_DIR, and recover what was set aside."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        verbs.add_parser("list", help="the writers of this node, and the segments that were set aside")
        for name, what in (
            ("verify", "read segments, and say what is wrong with them"),
            ("recover", "add the messages of segments that are not there yet; may be done again"),
        ):
            verb = verbs.add_parser(name, help=what)
            verb.add_argument("path", nargs="+", type=Path, help="a segment (.wal)")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["verb"] == "list":
            self._list(WalDir(conf().wal_dir))
            return
        for path in options["path"]:
            segment = self._verify(path)
            if options["verb"] == "recover":
                self._recover(segment)

    def _list(self, wal: WalDir) -> None:
        self.stdout.write(str(wal.path))
        for writer in sorted(wal.writers.glob("*")):
            paths = sorted(writer.glob(f"*/*{segments.SUFFIX}"))
            size = sum(path.stat().st_size for path in paths)
            state = "live" if is_live(writer) else "its process has died; its log waits for a process to take it over"
            self.stdout.write(f"  writer {writer.name}: {len(paths)} segments, {size} bytes; {state}")
        for path in wal.quarantined():
            why = path.with_suffix(".txt")
            self.stdout.write(f"  set aside: {path}: {why.read_text().strip() if why.exists() else 'no reason given'}")

    def _verify(self, path: Path) -> Segment:
        try:
            segment = segments.read(path)
        except (OSError, SegmentError) as error:
            raise CommandError(f"{path}: {error}") from error
        header, scan = segment.header, segment.scan
        trouble = segment.trouble(is_last=True) or (f"its last {scan.tail} bytes cannot be read" if scan.tail else "")
        self.stdout.write(
            f"{path}: segment {header.number} of writer {header.writer.hex} for shard {header.shard}, "
            f"{len(scan.frames)} records can be read; {trouble or 'nothing is wrong with it'}"
        )
        return segment

    def _recover(self, segment: Segment) -> None:
        try:
            added = asyncio.run(_recover(segment))
        except (MqueueError, psycopg.Error) as error:
            raise CommandError(f"{error}; nothing is lost by doing it again") from error
        self.stdout.write(f"  {added} were added, {len(segment.frames) - added} were there already")


async def _recover(segment: Segment) -> int:
    cluster = Cluster(conf())
    hot = Hot(conf(), cluster)
    settings = SettingsCache(cluster.control, {})
    await cluster.open()
    try:
        if segment.header.deployment != cluster.slots.deployment:
            raise CommandError(
                f"It belongs to another deployment, {segment.header.deployment}: its topics are not ours"
            )
        return await Rescue(cluster, hot, Topics(cluster, settings, auto_create_namespaces=False)).add(
            _records(segment)
        )
    finally:
        await hot.close()
        await cluster.close()


def _records(segment: Segment) -> Iterator[Record]:
    for frame in segment.frames:
        try:
            yield records.decode(frame.body)
        except msgspec.MsgspecError as error:
            raise CommandError(f"record {frame.number} cannot be decoded: {error}") from error
