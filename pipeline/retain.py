"""retain: drop partitions that are in the lake, when nobody wants them on the shard any more; and retire the files of
the lake that nobody wants there."""

from collections.abc import Callable
from datetime import timedelta

import psycopg
from django.utils import timezone

from mqueue.core.conf import Conf
from pipeline.errors import Busy, NothingToDo
from pipeline.expiry import expiry
from pipeline.manifest import State, change
from pipeline.models import Partition
from pipeline.pins import pinned_days
from pipeline.troubles import Troubles
from pipeline.turns import turn
from shards.retention import LogPartition, Terms, connected, drop, expired, log_partitions, terms

Say = Callable[[str], None]


def retain(conf: Conf, say: Say) -> None:
    wanted, troubles = terms(conf), Troubles(say)
    found = []
    with turn(conf):
        for shard in range(len(conf.shard_urls)):
            with troubles.of(f"shard {shard}"):
                found.append(retain_on(conf, shard, wanted, say))
        retired = retire(conf, say)
    troubles.end()
    if not retired and not any(dropped for dropped, _ in found):
        if any(in_use for _, in_use in found):
            raise Busy("What may be dropped is in use")
        raise NothingToDo("No partition may be dropped")


def retain_on(conf: Conf, shard: int, wanted: Terms, say: Say) -> tuple[int, int]:
    """How many were dropped, and how many could not be."""
    in_use = 0
    with connected(conf.shard_urls[shard]) as connection:
        for one in expired(connection, wanted):
            if droppable(conf, shard, one):
                try:
                    drop(connection, one)
                except psycopg.OperationalError as error:  # in use: the next run goes on
                    say(f"{one.name} on shard {shard} cannot be dropped now: {error}")
                    in_use += 1
        there = {(one.parent, one.day) for one in log_partitions(connection)}
    gone = [
        partition
        for partition in Partition.objects.filter(shard=shard, state=State.PUBLISHED)
        if (partition.parent, partition.day) not in there
    ]
    for partition in gone:
        change(partition, [State.PUBLISHED], state=State.DROPPED, dropped_at=timezone.now())
        say(f"dropped {partition}")
    return len(gone), in_use


def retire(conf: Conf, say: Say) -> int:
    """Files that hold nothing but what is past its time in the lake. `gc` deletes them after the grace."""
    over, retired = expiry(conf), 0
    for partition in filter(
        over.touches, Partition.objects.filter(state=State.DROPPED, files__retired_at=None).distinct()
    ):
        for file in partition.files.filter(retired_at=None):
            if all(over.is_over(partition, topic) for topic in file.parts.values_list("topic", flat=True)):
                retired += partition.files.filter(pk=file.pk, retired_at=None).update(retired_at=timezone.now())
                say(f"retired {file}")
    return retired


def droppable(conf: Conf, shard: int, one: LogPartition) -> bool:
    """Published for long enough, and read by no replay."""
    before = timezone.now() - timedelta(hours=conf.lake.grace_hours)
    if one.day in pinned_days(conf):
        return False
    return Partition.objects.filter(
        shard=shard, parent=one.parent, day=one.day, state=State.PUBLISHED, published_at__lte=before
    ).exists()
