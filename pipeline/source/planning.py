"""Where the rows of a read lie. Runs in a process of its own that Spark starts on the driver's machine, so it finds
databases by that process's environment, and connects for as long as one question takes."""

import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager

import django
from django.apps import apps

from mqueue.core.conf import Conf, conf
from pipeline.chunks import Names
from pipeline.errors import PipelineError
from pipeline.source.options import EARLIEST, FAR, Asked, Offsets

AHEAD = datetime.timedelta(days=91)  # a message lies on the day when it is due


@contextmanager
def planning() -> Iterator[Conf]:
    if not apps.ready:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqueue.settings")
        django.setup()
    from django.db import connections

    try:
        yield conf()
    finally:
        connections.close_all()


def topics_of(asked: Asked) -> Names:
    """By number. A topic that is named and not there may come."""
    from pipeline.log import every_topic, topics_named

    if asked.namespace is None:
        return every_topic(conf())
    found = topics_named(conf(), asked.namespace, None)
    return {number: name for number, name in found.items() if not asked.topics or name[1] in asked.topics}


def days_of(asked: Asked) -> frozenset[datetime.date]:
    """Those of the log that may hold what is in the times."""
    from pipeline.log import all_days

    ahead = AHEAD if asked.layout.parent == "message" else datetime.timedelta()
    last = FAR.date() if asked.last >= FAR - AHEAD else (asked.last + ahead).date()
    return frozenset(day for day in all_days(conf()) if asked.first.date() <= day <= last)


def offsets(which: Offsets | None, default: str) -> list[int]:
    """A txid for each shard; shards that are not named begin at the beginning."""
    from pipeline.log import horizons

    which = which or default
    below = horizons(conf())
    if isinstance(which, str):
        return [0] * len(below) if which == EARLIEST else below
    if foreign := sorted(which.keys() - range(len(below))):
        raise PipelineError(f"There is no shard {foreign[0]}: there are {len(below)}")
    return [min(which.get(shard, 0), below[shard]) for shard in range(len(below))]
