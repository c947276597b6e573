"""What a replay reads stays where it is while the run is under way, or may still be resumed."""

import datetime

from django.db import connection
from django.db.models import Q
from django.utils import timezone

from mqueue.core.conf import Conf
from pipeline.models import Replay

REPLAYING = 0x7265706C  # the upper half of the locks of runs
HELD = """
SELECT objid::bigint FROM pg_locks
WHERE locktype = 'advisory' AND classid = %s AND objsubid = 1 AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def lock_of(run: Replay) -> int:
    """For `turn`: one process is at a run at a time."""
    return REPLAYING << 32 | run.pk


def is_remembered(conf: Conf, run: Replay) -> bool:
    """Whether the keys of its last batch still hold."""
    return run.touched_at >= _remembered_since(conf)


def running(conf: Conf) -> list[Replay]:
    """One that nobody is at, and that rested for longer than the dedupe window, is never resumed, and holds nothing."""
    with connection.cursor() as cursor:
        cursor.execute(HELD, [REPLAYING])
        held = [number for (number,) in cursor.fetchall()]
    fresh = Q(touched_at__gte=_remembered_since(conf))
    return list(Replay.objects.filter(fresh | Q(pk__in=held), state=Replay.State.RUNNING))


def _remembered_since(conf: Conf) -> datetime.datetime:
    return timezone.now() - datetime.timedelta(milliseconds=conf.retention.dedupe_window_ms)


def pinned_days(conf: Conf) -> set[datetime.date]:
    return {day for run in running(conf) for day in run.days}
