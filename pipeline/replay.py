"""replay: send messages of the past again, in their old order, through the service's own door.

Each has an idempotency key of this run and its id, so a batch that is sent again adds nothing; and the run keeps how
far it has come, so that one that was killed goes on there.
"""

import datetime
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from django.utils import timezone
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from mqueue.core.conf import Conf
from pipeline.blocks import BLOCKS_DDL
from pipeline.door import Door
from pipeline.errors import NothingToDo, PipelineError
from pipeline.layout import MESSAGE
from pipeline.log import Wanted, days_between, frame, horizons, pieces, topics_named
from pipeline.models import Replay
from pipeline.pins import is_remembered, lock_of
from pipeline.sending import Sending
from pipeline.shelf import PATHS_DDL, Shelf
from pipeline.shelving import shelf
from pipeline.spans import (
    COUNTS,
    COUNTS_DDL,
    ENDS_DDL,
    GONE,
    LIGHT,
    SECOND,
    Chosen,
    Log,
    Work,
    counted,
    cut,
    ends,
    identities,
    in_order,
    micros,
    moment,
    reading,
    taking,
)
from pipeline.spark import Sessions
from pipeline.turns import Turn, turn

AHEAD_DAYS = 91  # a message may be scheduled as far, and lies in the log on the day when it is due
SPAN_ROWS, SPAN_BYTES = 50_000, 32 << 20  # what a task puts in order at a time
PARTS = 4  # of the ids, to count them
Say = Callable[[str], None]
Days = frozenset[datetime.date]
Seconds = dict[str, "np.ndarray[Any, np.dtype[np.int64]]"]


@dataclass(frozen=True, slots=True)
class Wish:
    """What to replay, and how. Times are of the enqueue, the first in, the last out."""

    namespace: str
    topic: str | None
    first: datetime.datetime
    last: datetime.datetime
    as_of: datetime.datetime | None = None
    include_deleted: bool = False
    into: str | None = None
    where: str | None = None
    most: int | None = None
    most_replays: int = 3
    rate: float | None = None  # messages a second

    def as_json(self) -> dict[str, Any]:
        return {name: _text(getattr(self, name)) for name in self.__slots__}

    @classmethod
    def of_json(cls, kept: dict[str, Any]) -> "Wish":
        times = {name: _time(kept[name]) for name in ("first", "last", "as_of")}
        return cls(**{**kept, **times})


def begin(conf: Conf, wish: Wish) -> Replay:
    """The run is on record before anything is read: from then on its days stay where they are."""
    days = sorted(messages_of(wish) | (frozenset() if wish.include_deleted else steps_of(wish)))
    return Replay.objects.create(name=uuid.uuid4().hex[:12], wish=wish.as_json(), days=days, horizons=horizons(conf))


def messages_of(wish: Wish) -> Days:
    return days_between(wish.first, wish.last, AHEAD_DAYS)


def steps_of(wish: Wish) -> Days:
    """When what was sent then may have been cancelled or deleted."""
    first, today = wish.first.date(), timezone.now().date()
    return frozenset(first + datetime.timedelta(n) for n in range((today - first).days + 1))


def resume(conf: Conf, name: str) -> Replay:
    run = Replay.objects.filter(name=name).first()
    if run is None:
        raise PipelineError(f"There is no replay {name}")
    require_open(conf, run)
    return run


def require_open(conf: Conf, run: Replay) -> None:
    """It may go on."""
    if run.state == Replay.State.DONE:
        raise NothingToDo(f"Replay {run.name} is done: {run.sent} were sent")
    if not is_remembered(conf, run):
        raise PipelineError(
            f"Replay {run.name} rested for longer than the dedupe window, so its last batch might be added twice: "
            f"begin another one from {run.last_at}"
        )


def replay(
    conf: Conf, sessions: Sessions, run: Replay, say: Say, door: Door, rate: float | None, *, is_resumed: bool = False
) -> None:
    """In one process at a time: another one that resumes it is told so."""
    with turn(conf, lock_of(run)) as mine:
        say(f"replay {run.name}")
        if is_resumed:
            run.refresh_from_db()  # another process may have been at it until a moment ago
            require_open(conf, run)
        try:
            source = Source.of(conf, sessions, run)
            seconds = source.seconds()
        except PipelineError:  # what was asked for cannot be done, and nothing was sent
            if not is_resumed:
                run.delete()
            raise
        if is_resumed:
            require_open(conf, run)  # to count takes its time
        _send(conf, sessions, run, source, seconds, say, Way(door, rate, mine))
    if not run.sent:
        raise NothingToDo("Nothing was to be sent")


@dataclass(frozen=True, slots=True)
class Way:
    """How messages go out: through a door, so many a second, and as long as it is our turn."""

    door: Door
    rate: float | None
    turn: Turn


def _send(conf: Conf, sessions: Sessions, run: Replay, source: "Source", seconds: Seconds, say: Say, way: Way) -> None:
    most = Wish.of_json(run.wish).most or 1 << 62
    total = min(int(seconds["messages"].sum()), most)
    with shelf(conf, sessions, run.name) as spans, Sending(run, way.door, way.rate, total, say) as sent:
        for pack in source.packs(bounds_of(seconds), spans):
            left = most - sent.begun
            if left <= 0:
                break
            way.turn.require()
            sent.add(pack if pack.num_rows <= left else pack.slice(0, left))
        sent.flush()
    run.state = Replay.State.DONE
    run.save(update_fields=["state"])
    say(f"replay {run.name} is done: {run.sent} sent, {sent.skipped} skipped, {sent.duplicates} were there already")


def dry_run(conf: Conf, sessions: Sessions, run: Replay, say: Say, *, is_resumed: bool = False) -> None:
    """What would be sent, by the hour of its enqueue; nothing is. A run that was begun to be sent keeps its place."""
    try:
        seconds = Source.of(conf, sessions, run).seconds()
    finally:
        if not is_resumed:
            run.delete()
    if not len(seconds["second"]):
        raise NothingToDo("Nothing would be sent")
    hours, places = np.unique(seconds["second"] // 3600, return_inverse=True)
    counts = np.bincount(places, seconds["messages"]).astype(int)
    for hour, count in zip(hours.tolist(), counts.tolist(), strict=True):
        say(f"{moment(hour * 3600 * SECOND):%Y-%m-%d %H:00} {count:>9} {'#' * max(1, round(50 * count / max(counts)))}")
    say(f"{counts.sum()} messages")


def bounds_of(seconds: Seconds) -> list[int]:
    """The first microsecond of each span but the first: so many messages or bytes, or a second that has more."""
    found: list[int] = []
    messages = size = 0
    for second, more, bytes_ in zip(*(seconds[name].tolist() for name in COUNTS.names), strict=True):
        if messages and (messages + more > SPAN_ROWS or size + bytes_ > SPAN_BYTES):
            found.append(second * SECOND)
            messages = size = 0
        messages, size = messages + more, size + bytes_
    return found


@dataclass(frozen=True, slots=True)
class Source:
    """The messages that are meant and not sent yet, each once."""

    spark: SparkSession
    log: Log
    chosen: Chosen
    where: str | None

    @classmethod
    def of(cls, conf: Conf, sessions: Sessions, run: Replay) -> "Source":
        wish = Wish.of_json(run.wish)
        names = topics_named(conf, wish.namespace, wish.topic)
        if not names:
            raise NothingToDo("There is no such topic")
        wanted = Wanted(messages_of(wish), names)
        log = Log(pieces(conf, "message", wanted, run.horizons), conf.lake.url, names)
        gone = () if wish.include_deleted else _gone(conf, sessions, run, wanted)
        until = min(wish.last, wish.as_of) if wish.as_of else wish.last
        after = (micros(run.last_at), run.last_id) if run.last_at and run.last_id else None
        chosen = Chosen(micros(wish.first), micros(until), after, gone, run.name, wish.into, wish.most_replays)
        return cls(sessions.get(), log, chosen, wish.where)

    def seconds(self) -> Seconds:
        """How many messages and bytes there are, by the second of their enqueue."""
        found = self._blocks(LIGHT, partial(identities, chosen=self.chosen, parts=PARTS))
        counts = found.repartitionById(PARTS, "number").mapInArrow(counted, COUNTS_DDL)
        table = counts.groupBy("second").sum("messages", "bytes").orderBy("second").toArrow()
        return {name: column.to_numpy() for name, column in zip(COUNTS.names, table.columns, strict=True)}

    def packs(self, bounds: list[int], shelf: Shelf) -> Iterator[pa.Table]:
        found = self._blocks(MESSAGE.schema, partial(cut, chosen=self.chosen, bounds=bounds))
        spans = found.repartitionById(len(bounds) + 1, "number").mapInArrow(in_order(shelf), PATHS_DDL)
        for row in spans.toLocalIterator(prefetchPartitions=True):
            yield from shelf.take(row["path"])

    def _blocks(self, schema: pa.Schema, work: Work) -> DataFrame:
        """A condition is Spark's to judge; without one, rows do not leave the task that reads them."""
        log = self.log
        if self.where is None:
            return numbers(self.spark, log).mapInArrow(reading(log, schema, work), BLOCKS_DDL)
        rows = frame(self.spark, log.url, MESSAGE, log.pieces, log.names, MESSAGE.schema.names)
        rows = rows.withColumn("body", fn.expr("if(is_json, cast(payload AS string), NULL)"))
        return _where(rows, self.where).mapInArrow(taking(work), BLOCKS_DDL)


def numbers(spark: SparkSession, log: Log) -> DataFrame:
    return spark.range(0, len(log.pieces), 1, max(1, len(log.pieces)))


def _gone(conf: Conf, sessions: Sessions, run: Replay, wanted: Wanted) -> tuple[int, ...]:
    """Ids of messages that were cancelled or deleted in the end, as of the time that was asked for."""
    wish = Wish.of_json(run.wish)
    steps = pieces(conf, "event", Wanted(steps_of(wish), wanted.names), run.horizons)
    log = Log(steps, conf.lake.url, wanted.names)
    find = ends(log, micros(wish.as_of) if wish.as_of else None)
    table = (
        numbers(sessions.get(), log)
        .mapInArrow(find, ENDS_DDL)
        .toArrow()
        .sort_by([("id", "ascending"), ("at", "ascending")])
    )
    ids, kinds = table["id"].to_numpy(), table["kind"].to_numpy()
    is_last = np.append(ids[1:] != ids[:-1], True) if len(ids) else np.zeros(0, bool)
    return tuple(ids[is_last & np.isin(kinds, GONE)].tolist())


def _where(messages: DataFrame, condition: str) -> DataFrame:
    try:
        chosen = messages.where(condition)
        _ = chosen.schema  # Spark Connect looks at it no sooner
        return chosen
    except (AnalysisException, ParseException) as error:
        raise PipelineError(f"--where: {str(error).splitlines()[0]}") from error


def _text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def _time(text: str | None) -> datetime.datetime | None:
    return datetime.datetime.fromisoformat(text) if text else None
