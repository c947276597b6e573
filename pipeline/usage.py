"""usage: what each topic did in each hour, and how long its messages took.

Into the control database, and as Parquet.
"""

import datetime
import uuid
from collections.abc import Callable
from typing import Any

from django.db import close_old_connections, transaction

from mqueue.core.conf import Conf
from pipeline.errors import NothingToDo
from pipeline.hours import COUNTS, HOURS_DDL, TIMES, by_hour, finishing
from pipeline.log import every_topic
from pipeline.meeting import jobs
from pipeline.models import RolledUp, UsageHour
from pipeline.rollup import AHEAD_DAYS, BEHIND_DAYS, Days, Source, around, numbered, touched
from pipeline.shelf import PLACES_DDL
from pipeline.shelving import shelf
from pipeline.spark import Sessions
from pipeline.tables import write_day
from pipeline.turns import Turn, turn
from shards.retention import keeping_connections

KIND = "usage"
PARTS = 4  # of topics and hours
Say = Callable[[str], None]


def usage(conf: Conf, sessions: Sessions, say: Say, *, everything: bool = False) -> None:
    with turn(conf) as mine, keeping_connections():
        if everything:
            RolledUp.objects.filter(kind=KIND).delete()
        below, days = touched(conf, KIND)
        if not days:
            raise NothingToDo("Nothing has happened since the last roll-up")
        rows = hours_of(Source(conf, sessions, below), days)
        land(conf, days, rows, below, mine)
        say(f"{len(rows)} hours of topics on {len(days)} days")


def hours_of(source: Source, days: Days) -> list[dict[str, Any]]:
    names = every_topic(source.conf)
    log = [
        *source.pieces("message", around(days, BEHIND_DAYS, AHEAD_DAYS), names),
        *source.pieces("event", around(days, 1, 0), names),
    ]
    found, url = jobs(log), source.conf.lake.url
    with shelf(source.conf, source.sessions, uuid.uuid4().hex[:12]) as laid:
        places = source.over(found, by_hour(found, url, names, numbered(days), PARTS, laid), PLACES_DDL)
        hours = places.repartitionById(PARTS, "number").mapInArrow(finishing(laid), HOURS_DDL)
        rows = hours.toArrow().to_pylist()
    for row in rows:
        row["namespace"], row["topic"] = names[row["topic_id"]]
    return sorted(rows, key=lambda row: (row["hour"], row["topic_id"]))


def land(conf: Conf, days: Days, rows: list[dict[str, Any]], below: list[int], mine: Turn) -> None:
    """The days' rows are replaced as a whole, with the note of how far we have read."""
    files = [write_day(conf, KIND, day, [row for row in rows if _day(row) == day]) for day in sorted(days)]
    close_old_connections()
    with transaction.atomic():
        for day in days:
            UsageHour.objects.filter(hour__date=day).delete()
        UsageHour.objects.bulk_create((_record(row) for row in rows), batch_size=1000)
        for file in files:
            file.publish()
        RolledUp.objects.create(kind=KIND, horizons=below)
        mine.require()
    for file in files:
        file.forget_older()


def _record(row: dict[str, Any]) -> UsageHour:
    hour = datetime.datetime.fromtimestamp(row["hour"], datetime.UTC)
    values = {name: row[name] for name in (*COUNTS, *TIMES)}
    return UsageHour(hour=hour, topic=row["topic_id"], namespace=row["namespace"], name=row["topic"], **values)


def _day(row: dict[str, Any]) -> datetime.date:
    return datetime.datetime.fromtimestamp(row["hour"], datetime.UTC).date()
