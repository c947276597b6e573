"""gc: delete files that are on no list, and those that were retired and that nobody may still be reading.

A file on no list is garbage when whoever wrote it can no longer publish it. So terms are raised first: a run that lost
its lock and wakes later finds itself fenced, and files of the terms before can go.
"""

import re
from collections.abc import Callable
from datetime import timedelta

from django.utils import timezone

from mqueue.core.conf import Conf
from pipeline.errors import NothingToDo
from pipeline.manifest import State, take_up
from pipeline.models import File, Partition, Replay, Table
from pipeline.storage import Storage
from pipeline.turns import turn
from shards.models import Deployment

NAME = re.compile(r"[^/]+/(message|event)/day=(\d{4}-\d\d-\d\d)/shard=(\d+)/(\d+)-[0-9a-f]{32}\.parquet")
TABLE = re.compile(r"[^/]+/(usage|failures)/day=\d{4}-\d\d-\d\d/[0-9a-f]{32}\.parquet")
Say = Callable[[str], None]


def gc(conf: Conf, say: Say) -> None:
    storage = Storage(conf.lake.url)
    with turn(conf):
        for partition in Partition.objects.filter(state=State.ARCHIVING):
            take_up(partition, State.ARCHIVING)
        terms = {(one.parent, str(one.day), str(one.shard)): one for one in Partition.objects.all()}
        there = list(storage.list(str(Deployment.objects.get().identity)))
        listed = {*File.objects.values_list("path", flat=True), *Table.objects.values_list("path", flat=True)}
        orphans = [path for path in there if path not in listed and is_garbage(path, terms)]
        for path in orphans:
            storage.delete(path)
        retired = deletable(timedelta(hours=conf.lake.grace_hours))
        for file in retired:
            storage.delete(file.path)  # first: a row without a file is found by the next run, the reverse by none
            file.delete()
    if not orphans and not retired:
        raise NothingToDo("Every file of the lake is on its list")
    say(f"deleted {len(orphans)} files that nobody published and {len(retired)} that were retired")


def is_garbage(path: str, partitions: dict[tuple[str, str, str], Partition]) -> bool:
    """What we did not name is not ours to delete."""
    if TABLE.fullmatch(path):  # roll-ups are written by whoever has the turn, and that is us
        return True
    found = NAME.fullmatch(path)
    if not found or not (partition := partitions.get((found[1], found[2], found[3]))):
        return False
    term = int(found[4])
    is_published = partition.state in (State.PUBLISHED, State.DROPPED)
    return term < partition.term or (is_published and term == partition.term)


def deletable(grace: timedelta) -> list[File]:
    pinned = {day for replay in Replay.objects.filter(state=Replay.State.RUNNING) for day in replay.days}
    old = File.objects.filter(retired_at__lt=timezone.now() - grace).select_related("partition")
    return [file for file in old if file.partition.day not in pinned]
