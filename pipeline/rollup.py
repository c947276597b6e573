"""Which days a roll-up has to do again, and where it reads them.

Days are done whole, so that a run may be repeated, and what came late is counted when it comes: its txid is above the
last run's horizon.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass

from django.db.models import Q, Sum
from django.db.models.functions import Coalesce
from pyspark.sql import DataFrame

from mqueue.core.conf import Conf
from pipeline.chunks import Batches, Names
from pipeline.log import IN_LAKE, Wanted, all_days, horizons, pieces
from pipeline.manifest import State
from pipeline.meeting import Job
from pipeline.models import Partition, RolledUp
from pipeline.pieces import Piece
from pipeline.spark import Sessions
from shards.retention import connected, is_over, today
from shards.sql import statement

AHEAD_DAYS = 91  # a message lies on the day when it is due
FIRST_DAY = datetime.date(1970, 1, 1)
BEHIND_DAYS = 8  # how long a message may have been due and still be timed
Say = Callable[[str], None]
Days = frozenset[datetime.date]


@dataclass(frozen=True, slots=True)
class Source:
    """The log of some days."""

    conf: Conf
    sessions: Sessions
    below: list[int]

    def pieces(self, parent: str, days: Days, names: Names) -> list[Piece]:
        return pieces(self.conf, parent, Wanted(days, names), self.below)

    def over(self, jobs: list[Job], work: Batches, ddl: str) -> DataFrame:
        """Each job in a task."""
        return self.sessions.get().range(0, len(jobs), 1, len(jobs)).mapInArrow(work, ddl)


def around(days: Days, behind: int, ahead: int) -> Days:
    return frozenset(day + datetime.timedelta(n) for day in days for n in range(-behind, ahead + 1))


def numbered(days: Days) -> frozenset[int]:
    """As Spark tasks count them."""
    return frozenset((day - FIRST_DAY).days for day in days)


def touched(conf: Conf, kind: str) -> tuple[list[int], Days]:
    """How far we may read now, and the days that have changed since the last run; at the first, all there are."""
    below = horizons(conf)
    last = RolledUp.objects.filter(kind=kind).first()
    if last is None or len(last.horizons) != len(below):
        return below, all_days(conf) - _past_the_lake(conf)
    days = set(Partition.objects.filter(published_at__gte=last.at, state__in=IN_LAKE).values_list("day", flat=True))
    for shard, url in enumerate(conf.shard_urls):
        with connected(url, patience="1h") as connection:
            rows = connection.execute(statement("days_since"), {"since": last.horizons[shard], "horizon": below[shard]})
            days |= {row[0] for row in rows.fetchall()}
    return below, _whole(conf, frozenset(days))


def _whole(conf: Conf, days: Days) -> Days:
    """Those whose log is all there. Of the others stays what was counted: a dead letter that is replayed years later
    changes the day of its enqueue, and would be all that is left of it."""
    return (days & all_days(conf)) - _past_the_lake(conf)


def _past_the_lake(conf: Conf) -> Days:
    """Days that have left a shard, and of which the lake has let something go, or need not have any more."""
    kept = conf.lake.retention_days
    with connected(conf.control_url) as connection:
        now, _ = today(connection)
    in_use = Coalesce(Sum("files__rows", filter=Q(files__retired_at=None)), 0)
    dropped = Partition.objects.filter(state=State.DROPPED).annotate(in_use=in_use)
    return frozenset(
        one.day for one in dropped if one.in_use < (one.rows or 0) or (kept and is_over(one.day, now, kept))
    )
