"""failures: what messages died of, grouped by the error without its numbers and names, by topic and day."""

import datetime
from collections import Counter
from collections.abc import Callable
from typing import Any

from django.db import close_old_connections, transaction
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from mqueue.core.conf import Conf
from mqueue.core.redrive import before
from pipeline.deaths import DEATHS_DDL, deaths
from pipeline.errors import NothingToDo
from pipeline.log import every_topic
from pipeline.meeting import jobs
from pipeline.models import Failure, RolledUp
from pipeline.rollup import Days, Source, around, numbered, touched
from pipeline.spark import Sessions
from pipeline.tables import write_day
from pipeline.turns import Turn, turn
from shards.retention import connected
from shards.sql import statement

KIND = "failures"
LONGEST = 300  # characters of a fingerprint
SHOWN, SHOWN_DAYS = 20, 30
# What differs from message to message, the most special first.
MASKS = (
    (r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?", "<time>"),
    (r"[\w.+-]+@[\w-]+\.[\w.-]+", "<mail>"),
    (r"(?i)\b0x[0-9a-f]+\b", "<hex>"),
    (r"(?i)\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b", "<hex>"),
    (r"'[^']*'|\"[^\"]*\"", "<text>"),
    (r"\d+([.,]\d+)*", "<n>"),
    (r"\s+", " "),
)
Say = Callable[[str], None]


def failures(conf: Conf, sessions: Sessions, say: Say) -> None:
    with turn(conf) as mine:
        below, days = touched(conf, KIND)
        if days:
            land(conf, days, deaths_of(Source(conf, sessions, below), days), below, mine)
    shown = report(conf, say)
    if not days and not shown:
        raise NothingToDo("Nothing has died")


def deaths_of(source: Source, days: Days) -> list[dict[str, Any]]:
    names = every_topic(source.conf)
    found = jobs(source.pieces("event", around(days, 1, 0), names))
    died = source.over(found, deaths(found, source.conf.lake.url, names, numbered(days)), DEATHS_DDL)
    rows = [row.asDict() for row in grouped(died).collect()]
    for row in rows:
        row["namespace"], row["topic"] = names[row["topic_id"]]
    return rows


def grouped(died: DataFrame) -> DataFrame:
    day = fn.date_format(fn.timestamp_micros("at_us"), "yyyy-MM-dd").alias("day")
    named = died.withColumns({"day": day, "fingerprint": fingerprint(fn.col("error"))})
    return named.groupBy("day", "topic_id", "reason", "fingerprint").agg(
        fn.count("*").alias("deaths"), fn.min("at_us").alias("first_us"), fn.max("at_us").alias("last_us"),
        fn.max_by("error", "at_us").alias("sample"), fn.max_by("id", "at_us").alias("sample_id"),
    )  # fmt: skip


def fingerprint(error: Column) -> Column:
    for pattern, mask in MASKS:
        error = fn.regexp_replace(error, pattern, mask)
    return fn.substring(fn.trim(error), 1, LONGEST)


def land(conf: Conf, days: Days, rows: list[dict[str, Any]], below: list[int], mine: Turn) -> None:
    files = [write_day(conf, KIND, day, [row for row in rows if row["day"] == str(day)]) for day in sorted(days)]
    close_old_connections()
    with transaction.atomic():
        Failure.objects.filter(day__in=days).delete()
        Failure.objects.bulk_create((_record(row) for row in rows), batch_size=1000)
        for file in files:
            file.publish()
        RolledUp.objects.create(kind=KIND, horizons=below)
        mine.require()
    for file in files:
        file.forget_older()


def report(conf: Conf, say: Say) -> int:
    """The worst of a month, with what may be done about each; how many there are."""
    since = datetime.datetime.now(datetime.UTC).date() - datetime.timedelta(SHOWN_DAYS)
    groups: dict[tuple[str, str, str, str], list[Failure]] = {}
    for one in Failure.objects.filter(day__gte=since):
        groups.setdefault((one.namespace, one.name, one.reason, one.fingerprint), []).append(one)
    of_topic: Counter[tuple[str, str]] = Counter()
    for (namespace, name, _, _), found in groups.items():
        of_topic[namespace, name] += sum(one.deaths for one in found)
    waiting = dead_now(conf)
    worst = sorted(groups.items(), key=lambda item: -sum(one.deaths for one in item[1]))
    for (namespace, name, reason, print_), found in worst[:SHOWN]:
        deaths, first = sum(one.deaths for one in found), min(one.first_at for one in found)
        share = 100 * deaths // of_topic[namespace, name]
        say(f"{deaths:>7}  {namespace}/{name}  {reason}: {print_ or 'no error told'}")
        say(f"         {share} % of its deaths, first {first:%Y-%m-%d %H:%M}, such as {found[-1].sample_id}: "
            f"{advice(reason, namespace, name, waiting.get((namespace, name), 0))}")  # fmt: skip
    return len(groups)


def advice(reason: str, namespace: str, topic: str, waiting: int) -> str:
    if not waiting:
        return "none of the topic's dead letters is left"
    body = f'{{"namespace": "{namespace}", "topic": "{topic}", "all": true}}'
    return f"{waiting} wait; {before(reason)} POST /dlq/replay {body}"


def dead_now(conf: Conf) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for url in conf.shard_urls:
        with connected(url) as connection:
            for namespace, name, count in connection.execute(statement("dead_counts"), {"namespace": None}).fetchall():
                found[namespace, name] = found.get((namespace, name), 0) + count
    return found


def _record(row: dict[str, Any]) -> Failure:
    moments = {
        name: datetime.datetime.fromtimestamp(row[f"{name}_us"] / 1e6, datetime.UTC) for name in ("first", "last")
    }
    return Failure(
        day=datetime.date.fromisoformat(row["day"]), topic=row["topic_id"], namespace=row["namespace"],
        name=row["topic"], reason=row["reason"], fingerprint=row["fingerprint"], sample=row["sample"],
        deaths=row["deaths"], first_at=moments["first"], last_at=moments["last"], sample_id=row["sample_id"],
    )  # fmt: skip
