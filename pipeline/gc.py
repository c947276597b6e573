"""gc: delete files that are on no list, and those that were retired and that nobody may still be reading.

A file on no list is garbage when whoever wrote it can no longer publish it. So terms are raised first: a run that lost
its lock and wakes later finds itself fenced, and files of the terms before can go.
"""

import re
from collections.abc import Callable, Iterable
from datetime import timedelta

from django.utils import timezone

from mqueue.core.conf import Conf
from pipeline.errors import NothingToDo
from pipeline.manifest import take_up
from pipeline.models import File, Partition, Table
from pipeline.pins import pinned_days, running
from pipeline.storage import Storage
from pipeline.turns import turn
from shards.models import Deployment

NAME = re.compile(r"[^/]+/(message|event)/day=(\d{4}-\d\d-\d\d)/shard=(\d+)/(\d+)-[0-9a-f]{32}\.parquet")
TABLE = re.compile(r"[^/]+/(usage|failures)/day=\d{4}-\d\d-\d\d/[0-9a-f]{32}\.parquet")
LAID = re.compile(r"[^/]+/shelf/([0-9a-f]+)/[0-9a-f]{32}\.arrow")
Say = Callable[[str], None]


def gc(conf: Conf, say: Say) -> None:
    storage = Storage(conf.lake.url)
    with turn(conf):
        orphans = delete_orphans(conf, storage)
        retired = delete_retired(storage, deletable(conf))
    if not orphans and not retired:
        raise NothingToDo("Every file of the lake is on its list")
    say(f"deleted {orphans} files that nobody published and {retired} that were retired")


def delete_orphans(conf: Conf, storage: Storage) -> int:
    """In one's turn."""
    replays = {run.name for run in running(conf)}
    unlisted = unlisted_of(storage.list(str(Deployment.objects.get().identity)))
    partitions = {(one.parent, str(one.day), str(one.shard)): one for one in Partition.objects.all()}
    for partition in {one.pk: one for path in unlisted if (one := owner(path, partitions))}.values():
        take_up(partition)
    orphans = [path for path in unlisted_of(unlisted) if is_garbage(path, partitions, replays)]
    for path in orphans:
        storage.delete(path)
    return len(orphans)


def unlisted_of(paths: Iterable[str]) -> list[str]:
    found = list(paths)  # first: what is written and published meanwhile is none of these
    listed = {*File.objects.values_list("path", flat=True), *Table.objects.values_list("path", flat=True)}
    return [path for path in found if path not in listed]


def owner(path: str, partitions: dict[tuple[str, str, str], Partition]) -> Partition | None:
    """The partition whose term has to rise before the file may go."""
    found = NAME.fullmatch(path)
    partition = partitions.get((found[1], found[2], found[3])) if found else None
    return partition if found and partition and int(found[4]) <= partition.term else None


def is_garbage(path: str, partitions: dict[tuple[str, str, str], Partition], replays: set[str]) -> bool:
    """What we did not name is not ours to delete."""
    if laid := LAID.fullmatch(path):  # by a replay, or by a roll-up in its turn
        return laid[1] not in replays
    if TABLE.fullmatch(path):  # roll-ups are written by whoever has the turn, and that is us
        return True
    found = NAME.fullmatch(path)
    partition = partitions.get((found[1], found[2], found[3])) if found else None
    return bool(found and partition and int(found[4]) < partition.term)


def deletable(conf: Conf) -> list[File]:
    before, pinned = timezone.now() - timedelta(hours=conf.lake.grace_hours), pinned_days(conf)
    old = File.objects.filter(retired_at__lt=before).select_related("partition")
    return [file for file in old if file.partition.day not in pinned]


def delete_retired(storage: Storage, files: list[File]) -> int:
    for file in files:
        storage.delete(file.path)  # first: a row without a file is found by the next run, the reverse by none
        file.delete()
    return len(files)
