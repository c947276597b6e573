"""erase: take what a namespace has in the lake out of it, for good.

First the list: each file with rows of it is retired, and one without them comes in its place. Then the roll-ups. Then
the bytes: the old files go with `gc` after the grace, since somebody may be reading them, or at once where one asks.
Killed anywhere, the next run does what is left.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.models import QuerySet, Sum

from mqueue.core.conf import Conf
from pipeline.errors import Busy, NothingToDo, PipelineError
from pipeline.gc import delete_orphans, delete_retired
from pipeline.models import Failure, File, Part, Replay, Table, UsageHour
from pipeline.pins import running
from pipeline.rewrite import Change, rewrite
from pipeline.spark import Sessions
from pipeline.storage import Storage
from pipeline.tables import without
from pipeline.turns import turn
from shards.retention import connected
from shards.sql import statement

PATIENCE = "1h"  # the log of the shards is read from end to end
Say = Callable[[str], None]


def erase(conf: Conf, sessions: Sessions, namespace: str, say: Say, *, sure: bool, at_once: bool) -> None:
    with turn(conf):
        files = list(files_of(namespace).filter(retired_at=None).select_related("partition"))
        retired = list(files_of(namespace).exclude(retired_at=None).select_related("partition"))
        require_something(namespace, files, retired if at_once else [], say)
        require_unread(conf, namespace, [*files, *retired])
        if not sure:
            raise PipelineError(f"Nothing was changed: --yes erases the rows of {namespace} for good")
        rewrite(conf, sessions, changes(files, namespace), say)
        forget(conf, namespace)
        say(f"the roll-ups have nothing of {namespace} any more")
        delete_bytes(conf, namespace, say, at_once=at_once)
    tell_what_is_left(conf, namespace, say)


def files_of(namespace: str) -> "QuerySet[File]":
    return File.objects.filter(parts__namespace=namespace).distinct()


def counts_of(namespace: str) -> "list[QuerySet[Any]]":
    """What is known of it beside the lake."""
    return [
        UsageHour.objects.filter(namespace=namespace),
        Failure.objects.filter(namespace=namespace),
        Replay.objects.filter(wish__namespace=namespace),
    ]


def require_something(namespace: str, files: list[File], retired: list[File], say: Say) -> None:
    hours, failures, replays = (found.count() for found in counts_of(namespace))
    if not (files or retired or hours or failures or replays):
        raise NothingToDo(f"Neither the lake nor the roll-ups list anything of {namespace}")
    parts = Part.objects.filter(file__in=files, namespace=namespace)
    rows = parts.aggregate(rows=Sum("rows"))["rows"] or 0
    known = f"{hours} rows of usage, {failures} of failures, {replays} replays"
    say(f"{namespace}: {rows} rows in {len(files)} files; {known}")


def require_unread(conf: Conf, namespace: str, files: list[File]) -> None:
    """What a replay counts on must not change under it."""
    days = {file.partition.day for file in files}
    for run in running(conf):
        owner = run.wish.get("namespace")
        if owner == namespace or days & set(run.days):
            raise Busy(f"Replay {run} of {owner} is under way, and reads the same days: let it end first")


def changes(files: list[File], namespace: str) -> list[Change]:
    """Each file without the namespace; one that has nothing else has none in its place."""
    of_partition: dict[int, list[File]] = defaultdict(list)
    for file in files:
        of_partition[file.partition_id].append(file)
    found = []
    for mine in of_partition.values():
        left = [list(file.parts.exclude(namespace=namespace).select_related("file")) for file in mine]
        found.append(Change(mine[0].partition, mine, [parts for parts in left if parts]))
    return found


def forget(conf: Conf, namespace: str) -> None:
    """The files first: as long as the rows are there, the next run looks for files, too."""
    for table in Table.objects.all():
        if file := without(conf, table, namespace):
            with transaction.atomic():
                file.publish()
            file.forget_older()
    with transaction.atomic():
        for found in counts_of(namespace):
            found.delete()


def delete_bytes(conf: Conf, namespace: str, say: Say, *, at_once: bool) -> None:
    old = list(files_of(namespace).exclude(retired_at=None))
    if not at_once:
        say(f"{len(old)} old files still have its rows: `gc` deletes them when their grace is over, --now at once")
        return
    storage = Storage(conf.lake.url)
    orphans = delete_orphans(conf, storage)  # what a killed run left may be a copy of its rows
    say(f"deleted {delete_retired(storage, old) + orphans} files; whoever was reading one has to begin again")


def tell_what_is_left(conf: Conf, namespace: str, say: Say) -> None:
    for shard, url in enumerate(conf.shard_urls):
        with connected(url, patience=PATIENCE) as connection:
            row: Any = connection.execute(statement("namespace_left"), {"namespace": namespace}).fetchone()
        days, dead = row
        if days:
            say(f"shard {shard} still has rows of it, of {len(days)} days, the last of {days[-1]}: they leave it with "
                "its retention, and are in the lake by then: erase again")  # fmt: skip
        if dead:
            say(f"shard {shard} still has {dead} dead letters of it: POST /dlq/delete, and erase again")
