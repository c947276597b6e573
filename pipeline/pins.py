"""What a replay reads stays where it is while the run is under way, or may still be resumed."""

import datetime

from django.utils import timezone

from mqueue.core.conf import Conf
from pipeline.models import Replay


def running(conf: Conf) -> list[Replay]:
    """A run that rested for longer than the dedupe window is never resumed, and holds nothing."""
    window = datetime.timedelta(milliseconds=conf.retention.dedupe_window_ms)
    return list(Replay.objects.filter(state=Replay.State.RUNNING, touched_at__gte=timezone.now() - window))


def pinned_days(conf: Conf) -> set[datetime.date]:
    return {day for run in running(conf) for day in run.days}
