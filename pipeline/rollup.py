"""Which days a roll-up has to do again, and where it reads them.

Days are done whole, so that a run may be repeated, and what came late is counted when it comes: its txid is above the
last run's horizon.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from mqueue.core.conf import Conf
from pipeline.chunks import Batches, Names
from pipeline.log import IN_LAKE, Wanted, all_days, horizons, pieces
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
        return below, _kept_days(conf)
    days = set(Partition.objects.filter(published_at__gte=last.at, state__in=IN_LAKE).values_list("day", flat=True))
    for shard, url in enumerate(conf.shard_urls):
        with connected(url, patience="1h") as connection:
            rows = connection.execute(statement("days_since"), {"since": last.horizons[shard], "horizon": below[shard]})
            days |= {row[0] for row in rows.fetchall()}
    return below, frozenset(days)


def _kept_days(conf: Conf) -> Days:
    """All but those that the lake need not have any more: what was counted of them stays."""
    kept = conf.lake.retention_days
    if not kept:
        return all_days(conf)
    with connected(conf.control_url) as connection:
        now, _ = today(connection)
    return frozenset(day for day in all_days(conf) if not is_over(day, now, kept))
