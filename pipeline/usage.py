"""usage: what each topic did in each hour, and how long its messages took.

Into the control database, and as Parquet.
"""

import datetime
from collections.abc import Callable
from functools import reduce
from typing import Any

from django.db import close_old_connections, transaction
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqueue.core.conf import Conf
from pipeline.errors import NothingToDo
from pipeline.models import RolledUp, UsageHour
from pipeline.rollup import AHEAD_DAYS, BEHIND_DAYS, Days, Source, around, touched
from pipeline.spark import Sessions
from pipeline.tables import write_day
from pipeline.turns import Turn, turn

KIND = "usage"
PUBLISHED_COLUMNS = ["namespace", "topic", "enqueued_at", "deliver_after", "payload_bytes"]
DELIVERED, AGAIN, ACKED, DEAD = 2, 3, 8, 9
SHARES = (0.5, 0.95, 0.99)
KEYS = ["hour", "topic_id", "namespace", "topic"]
COUNTS = ["messages", "bytes", "deliveries", "retries", "acked", "dead"]
TIMES = ["wait_ms", "work_ms", "total_ms"]
Say = Callable[[str], None]


def usage(conf: Conf, sessions: Sessions, say: Say, *, everything: bool = False) -> None:
    with turn(conf) as mine:
        if everything:
            RolledUp.objects.filter(kind=KIND).delete()
        below, days = touched(conf, KIND)
        if not days:
            raise NothingToDo("Nothing has happened since the last roll-up")
        rows = hours_of(Source(conf, sessions, below), days)
        land(conf, days, rows, below, mine)
        say(f"{len(rows)} hours of topics on {len(days)} days")


def hours_of(source: Source, days: Days) -> list[dict[str, Any]]:
    messages = source.rows("message", around(days, BEHIND_DAYS, AHEAD_DAYS), PUBLISHED_COLUMNS).dropDuplicates(["id"])
    events = source.rows("event", around(days, 1, 0), ["namespace", "topic", "at", "epoch", "kind"])
    parts = [sent(messages), *steps(events), times(messages, events)]
    together = reduce(lambda left, right: left.join(right, KEYS, "full"), parts)
    chosen = together.where(fn.to_date(fn.timestamp_seconds("hour")).isin(*days)).fillna(0, COUNTS)
    return [row.asDict() for row in chosen.orderBy(*KEYS).collect()]


def sent(messages: DataFrame) -> DataFrame:
    """Messages and bytes, by the hour of their enqueue."""
    return messages.groupBy(_hour("enqueued_at"), "topic_id", "namespace", "topic").agg(
        fn.count("*").alias("messages"), fn.sum("payload_bytes").alias("bytes")
    )


def steps(events: DataFrame) -> list[DataFrame]:
    """Deliveries, retries, acks and deaths, by the hour in which they happened."""
    counted = events.groupBy(_hour("at"), "topic_id", "namespace", "topic").agg(
        fn.count_if(fn.col("kind").isin(DELIVERED, AGAIN)).alias("deliveries"),
        fn.count_if(fn.col("kind") == AGAIN).alias("retries"),
        fn.count_if(fn.col("kind") == ACKED).alias("acked"),
        fn.count_if(fn.col("kind") == DEAD).alias("dead"),
    )
    return [counted]


def times(messages: DataFrame, events: DataFrame) -> DataFrame:
    """How long messages waited, were worked on, and took in all, by the hour of the step that ended it."""
    due = messages.select("id", fn.greatest("enqueued_at", fn.coalesce("deliver_after", "enqueued_at")).alias("due"))
    delivered = events.where(fn.col("kind").isin(DELIVERED, AGAIN)).select(
        "id", "epoch", fn.col("at").alias("delivered_at")
    )
    ended = events.where(fn.col("kind").isin(DELIVERED, ACKED)).join(due, "id", "left")
    ended = ended.join(delivered, ["id", "epoch"], "left")
    first, last = fn.col("kind") == DELIVERED, fn.col("kind") == ACKED
    timed = ended.select(
        _hour("at"), "topic_id", "namespace", "topic",
        fn.when(first, _ms("due", "at")).alias("wait_ms"),
        fn.when(last, _ms("delivered_at", "at")).alias("work_ms"),
        fn.when(last, _ms("due", "at")).alias("total_ms"),
    )  # fmt: skip
    shares = fn.array(*(fn.lit(share) for share in SHARES))
    return timed.groupBy(*KEYS).agg(*(fn.percentile(name, shares).alias(name) for name in TIMES))


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


def _hour(column: str) -> Any:
    """In seconds: as a time it would be taken for the driver's own zone."""
    return fn.unix_seconds(fn.date_trunc("hour", column)).alias("hour")


def _ms(since: str, until: str) -> Any:
    return fn.greatest(fn.lit(0.0), (fn.unix_micros(until) - fn.unix_micros(since)) / 1000)
