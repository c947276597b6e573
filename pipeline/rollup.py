"""Which days a roll-up has to do again, and where it reads them.

Days are done whole, so that a run may be repeated, and what came late is counted when it comes: its txid is above the
last run's horizon.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from mqueue.core.conf import Conf
from pipeline.layout import LAYOUTS
from pipeline.log import IN_LAKE, Wanted, all_days, every_topic, frame, horizons, pieces
from pipeline.models import Partition, RolledUp
from pipeline.spark import Sessions
from shards.retention import connected, is_over, today
from shards.sql import statement

AHEAD_DAYS = 91  # a message lies on the day when it is due
BEHIND_DAYS = 8  # how long a message may have been due and still be timed
Say = Callable[[str], None]
Days = frozenset[datetime.date]


@dataclass(frozen=True, slots=True)
class Source:
    """The rows of some days, as frames."""

    conf: Conf
    sessions: Sessions
    below: list[int]

    def rows(self, parent: str, days: Days, columns: list[str]) -> DataFrame:
        wanted = Wanted(days, every_topic(self.conf))
        found = pieces(self.conf, parent, wanted, self.below)
        return frame(self.sessions.get(), self.conf.lake.url, LAYOUTS[parent], found, wanted.names, columns)


def around(days: Days, behind: int, ahead: int) -> Days:
    return frozenset(day + datetime.timedelta(n) for day in days for n in range(-behind, ahead + 1))


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
