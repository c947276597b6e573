"""What the lake need not keep any longer: LAKE_RETENTION_DAYS, and a topic's own retention where that is longer."""

import datetime
from dataclasses import dataclass

from mqueue.core.conf import Conf
from pipeline.manifest import State
from pipeline.models import Partition
from pipeline.pins import pinned_days
from shards.retention import Terms, connected, is_over, terms, today


@dataclass(frozen=True, slots=True)
class Expiry:
    """Only of days that have left their shard, and that no replay reads."""

    today: datetime.date
    terms: Terms | None  # None: for ever
    pinned: set[datetime.date]

    def touches(self, partition: Partition) -> bool:
        """Something of it may be over."""
        return (
            self.terms is not None
            and partition.state == State.DROPPED
            and partition.day not in self.pinned
            and is_over(partition.day, self.today, self.terms.usual)
        )

    def is_over(self, partition: Partition, topic: int) -> bool:
        return (
            self.terms is not None
            and self.touches(partition)
            and is_over(partition.day, self.today, self.terms.longest_of([topic]))
        )


def expiry(conf: Conf) -> Expiry:
    with connected(conf.control_url) as connection:
        now, _ = today(connection)
    return Expiry(now, _terms(conf), pinned_days(conf))


def _terms(conf: Conf) -> Terms | None:
    days = conf.lake.retention_days
    if not days:
        return None
    return Terms(days, {topic: max(own, days) for topic, own in terms(conf).own.items()})
