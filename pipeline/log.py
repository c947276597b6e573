"""The whole log as one Spark frame: days that are in the lake from there, the others from the shards, below a horizon.

A day is read from one of the two, and neither goes away meanwhile: see pins in models.Replay. Rows that commit while
we read have a txid above the horizon, and are left to the next reader.
"""

import datetime
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import TypeVar

import pyarrow as pa
from django.db.models import Max, Min
from pyspark.sql import DataFrame, SparkSession

from mqueue.core.conf import Conf
from pipeline.chunks import Names
from pipeline.errors import PipelineError
from pipeline.layout import TYPES, Layout
from pipeline.manifest import State
from pipeline.models import File, Part, Partition
from pipeline.pieces import Piece, few, reader
from shards.models import SlotMap
from shards.retention import Connection, connected, log_partitions
from shards.sql import statement

PIECE_BYTES, ROW_BYTES = 32 << 20, 300
IN_LAKE = (State.PUBLISHED, State.DROPPED)
Archived = set[tuple[int, datetime.date]]  # by shard
Seconds = list[tuple[int, int, int]]  # second of the enqueue, messages, bytes
T = TypeVar("T")
MOVED = 1  # a horizon below which are those rows alone that have moved to the shard


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows: of these days, and topics by number; of events on shards, some kinds alone, if they are told."""

    days: frozenset[datetime.date]
    names: Names
    kinds: tuple[int, ...] | None = None


def horizons(conf: Conf) -> list[int]:
    """By shard: every row with a lower txid is there by now."""
    found = []
    for url in conf.shard_urls:
        with connected(url) as connection:
            row = connection.execute(statement("horizon")).fetchone()
        assert row
        found.append(int(row[0]))
    return found


def horizons_since(conf: Conf, then: Sequence[int]) -> list[int]:
    """Those of an earlier time, with the shards that came later: there is of that time what has moved to them."""
    return [*then, *[MOVED] * (len(conf.shard_urls) - len(then))]


def map_version() -> int:
    """Which slots are on which shard. Rows that have moved are deleted where they were when there is a new map."""
    return SlotMap.objects.order_by("-version").values_list("version", flat=True).first() or 0


def topics_named(conf: Conf, namespace: str, topic: str | None) -> Names:
    """From the shards and from the lake, since a topic may be left in one of them alone."""
    names: Names = {}
    for url in conf.shard_urls:
        with connected(url) as connection:
            rows = connection.execute("SELECT id, namespace, name FROM topic WHERE namespace = %s", [namespace])
            names |= {row[0]: (row[1], row[2]) for row in rows.fetchall()}
    for number, name in Part.objects.filter(namespace=namespace).values_list("topic", "name").distinct():
        names[number] = (namespace, name)
    return {number: name for number, name in names.items() if topic in (None, name[1])}


def every_topic(conf: Conf) -> Names:
    names: Names = {number: (namespace, name) for number, namespace, name in
                    Part.objects.values_list("topic", "namespace", "name").distinct()}  # fmt: skip
    for url in conf.shard_urls:
        with connected(url) as connection:
            rows = connection.execute("SELECT id, namespace, name FROM topic").fetchall()
            names |= {row[0]: (row[1], row[2]) for row in rows}
    return names


def pieces(conf: Conf, parent: str, wanted: Wanted, below: Sequence[int], rows: int | None = None) -> list[Piece]:
    """Of `rows` rows at most, where they come from a shard."""

    def look(archived: Archived) -> list[Piece]:
        live = (
            _live(conf, parent, wanted, shard, below[shard], archived, rows) for shard in range(len(conf.shard_urls))
        )
        return [*_filed(parent, wanted, below), *chain.from_iterable(live)]

    return _as_it_stays(parent, look)


def counted_pieces(
    conf: Conf, wanted: Wanted, below: Sequence[int], first: datetime.datetime, until: datetime.datetime
) -> list[tuple[Piece, Seconds]]:
    """Of messages that were enqueued in that time, and how many there are on the shards; files do not tell."""

    def look(archived: Archived) -> list[tuple[Piece, Seconds]]:
        live = (
            _counted(conf, wanted, shard, below[shard], archived, first, until) for shard in range(len(conf.shard_urls))
        )
        return [*((piece, []) for piece in _filed("message", wanted, below)), *chain.from_iterable(live)]

    return _as_it_stays("message", look)


def _as_it_stays(parent: str, look: Callable[[Archived], T]) -> T:
    """A day that goes into the lake while we look would be found in both places or in neither: then we look again."""
    while True:
        archived = days_in_lake(parent)
        found = look(archived)
        if days_in_lake(parent) == archived:
            return found


def days_in_lake(parent: str) -> Archived:
    """And so read from there, by shard."""
    return set(Partition.objects.filter(parent=parent, state__in=IN_LAKE).values_list("shard", "day"))


def files(parent: str, wanted: Wanted) -> list[tuple[int, str, int, int, int]]:
    """Of the lake: shard, path and rows of each, and the least and the highest id of what is wanted."""
    found = File.objects.filter(
        retired_at=None, partition__parent=parent, partition__state__in=IN_LAKE, partition__day__in=wanted.days,
        parts__topic__in=wanted.names,
    )  # fmt: skip
    ids = {"low": Min("parts__min_id"), "high": Max("parts__max_id")}
    return list(found.order_by("path").values_list("partition__shard", "path", "rows").annotate(**ids))


def _filed(parent: str, wanted: Wanted, below: Sequence[int]) -> Iterator[Piece]:
    for shard, path, rows, low, high in files(parent, wanted):
        yield Piece(parent, shard, below[shard], path=path, rows=rows, low=low, high=high)


def _live(
    conf: Conf, parent: str, wanted: Wanted, shard: int, below: int, archived: Archived, rows: int | None
) -> Iterator[Piece]:
    most, about = rows or PIECE_BYTES, rows or PIECE_BYTES // ROW_BYTES
    if parent == "message":
        split = statement("splits_rows") if rows else statement("splits")
    else:
        split = statement("event_splits_rows") if rows else statement("event_splits")
    asked = {"horizon": below, "topics": few(wanted.names), "kinds": wanted.kinds and [*wanted.kinds], "most": most}
    for connection, day in _days(conf, parent, wanted, shard, archived):
        for low, high in connection.execute(split, asked | {"day": day}).fetchall():
            yield Piece(parent, shard, below, day=day, low=low, high=high, rows=about)


def _counted(
    conf: Conf,
    wanted: Wanted,
    shard: int,
    below: int,
    archived: Archived,
    first: datetime.datetime,
    until: datetime.datetime,
) -> Iterator[tuple[Piece, Seconds]]:
    asked = {"horizon": below, "topics": few(wanted.names), "most": PIECE_BYTES, "first": first, "until": until}
    for connection, day in _days(conf, "message", wanted, shard, archived):
        rows = connection.execute(statement("splits_seconds"), asked | {"day": day}).fetchall()
        for _, group in groupby(rows, itemgetter(0)):
            _, seconds, lows, highs, messages, sizes = zip(*group, strict=True)
            counts = [*zip(seconds, messages, sizes, strict=True)]
            of_all = sum(messages)
            yield Piece("message", shard, below, day=day, low=min(lows), high=max(highs), rows=of_all), counts


def _days(
    conf: Conf, parent: str, wanted: Wanted, shard: int, archived: Archived
) -> Iterator[tuple[Connection, datetime.date]]:
    """Those that are wanted and are read from the shard, which is asked by this connection."""
    with connected(conf.shard_urls[shard], patience="1h") as connection:
        for one in log_partitions(connection):
            is_meant = one.parent == parent and one.is_attached and one.day in wanted.days
            if is_meant and (shard, one.day) not in archived:
                yield connection, one.day


def all_days(conf: Conf) -> frozenset[datetime.date]:
    days = set(Partition.objects.values_list("day", flat=True))
    for url in conf.shard_urls:
        with connected(url) as connection:
            days |= {one.day for one in log_partitions(connection)}
    return frozenset(days)


def frame(
    spark: SparkSession, url: str, layout: Layout, pieces: list[Piece], names: Names, columns: Iterable[str]
) -> DataFrame:
    """The columns of the rows of these topics, in no order. A message that came back into the log is there twice."""
    chosen = [name for name in layout.schema.names if name in {*columns, "id", "txid", "topic_id"}]
    schema = pa.schema([layout.schema.field(name) for name in chosen])
    ddl = ", ".join(f"{field.name} {TYPES[str(field.type)]}" for field in schema)
    numbers = spark.range(0, len(pieces), 1, max(1, len(pieces)))
    return numbers.mapInArrow(reader(pieces, url, names, schema), ddl)


def days_between(first: datetime.datetime, last: datetime.datetime, ahead: int) -> frozenset[datetime.date]:
    """The days of the log that may hold what was enqueued between the two: up to `ahead` days later."""
    if last <= first:
        raise PipelineError("--to has to be after --from")
    count = (last.date() - first.date()).days + ahead + 1
    return frozenset(first.date() + datetime.timedelta(number) for number in range(count))
