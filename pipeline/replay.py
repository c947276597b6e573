"""replay: send messages of the past again, in their old order, through the service's own door.

Each has an idempotency key of this run and its id, so a batch that is sent again adds nothing; and the run keeps how
far it has come, so that one that was killed goes on there.
"""

import datetime
import uuid
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from django.utils import timezone
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from mqueue.core.conf import Conf
from pipeline.blocks import BLOCKS_DDL
from pipeline.door import Door
from pipeline.errors import LogChanged, NothingToDo, PipelineError
from pipeline.layout import MESSAGE
from pipeline.log import (
    Seconds,
    Wanted,
    counted_pieces,
    days_between,
    frame,
    horizons,
    horizons_since,
    map_version,
    pieces,
    topics_named,
)
from pipeline.models import Replay
from pipeline.patience import Patience
from pipeline.pins import is_remembered, lock_of
from pipeline.sending import Sending
from pipeline.shelf import PLACES, PLACES_DDL, Shelf
from pipeline.shelving import shelf
from pipeline.spans import (
    ANY,
    COUNTS_DDL,
    DECIDING,
    ENDS_DDL,
    GONE,
    LIGHT,
    SECOND,
    Chosen,
    Log,
    Work,
    counter,
    cut,
    ends,
    identities,
    micros,
    moment,
    packs,
    reading,
    taking,
)
from pipeline.spark import Sessions, telling_failures
from pipeline.turns import Turn, turn
from pipeline.waves import Place, Taken, spans
from shards.retention import keeping_connections

AHEAD_DAYS = 91  # a message may be scheduled as far, and lies in the log on the day when it is due
SPAN_ROWS, SPAN_BYTES = 50_000, 32 << 20  # what a task puts in order at a time
PARTS = 4  # of the ids, to count them
Say = Callable[[str], None]
Days = frozenset[datetime.date]
Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


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
        way = Way(door, rate, mine)
        while True:
            try:
                _go(conf, sessions, run, say, way, is_resumed=is_resumed)
                break
            except LogChanged as changed:
                say(f"{changed.__doc__} It is read again, from {run.last_at or 'its beginning'} on")
                is_resumed = True
    if not run.sent:
        raise NothingToDo("Nothing was to be sent")


def _go(conf: Conf, sessions: Sessions, run: Replay, say: Say, way: "Way", *, is_resumed: bool) -> None:
    if is_resumed:
        run.refresh_from_db()  # another process may have been at it until a moment ago
        require_open(conf, run)
    try:
        with telling_failures(), ThreadPoolExecutor(1, "beside") as beside:
            begun = beside.submit(sessions.get)  # which takes its time
            with keeping_connections():
                source = Source.of(conf, sessions, run)
            begun.result()
            gone = beside.submit(source.gone)
            counts = source.counted()  # with those that are gone or there twice, which a bar of progress can bear
            source = source.without(gone.result())
    except PipelineError:  # what was asked for cannot be done, and nothing was sent
        if not is_resumed:
            run.delete()
        raise
    if is_resumed:
        require_open(conf, run)  # to count takes its time
    try:
        _send(conf, sessions, run, source, counts, say, way)
    except LogChanged:
        raise
    except BaseException:
        say(f"replay {run.name} has stopped, {run.sent} sent: --resume {run.name} goes on with it")
        raise


@dataclass(frozen=True, slots=True)
class Way:
    """How messages go out: through a door, so many a second, and as long as it is our turn."""

    door: Door
    rate: float | None
    turn: Turn


def _send(conf: Conf, sessions: Sessions, run: Replay, source: "Source", counts: "Counts", say: Say, way: Way) -> None:
    most = Wish.of_json(run.wish).most or 1 << 62
    total = min(int(counts.messages.sum()), most - run.sent)
    with (
        shelf(conf, sessions, run.name) as found,
        Sending(run, way.door, way.rate, total, say) as sent,
        closing(source.packs(counts, found, say)) as coming,
    ):
        for pack in coming:
            way.turn.require()
            while pack.num_rows and (left := most - sent.begun) > 0:  # of those that are skipped none counts
                part = pack.slice(0, left)
                sent.add(part)
                pack = pack.slice(part.num_rows)  # noqa: PLW2901
            if pack.num_rows:
                break
        sent.flush()
    run.state = Replay.State.DONE
    run.save(update_fields=["state"])
    say(f"replay {run.name} is done: {run.sent} sent, {sent.skipped} skipped, {sent.duplicates} were there already")


def dry_run(conf: Conf, sessions: Sessions, run: Replay, say: Say, *, is_resumed: bool = False) -> None:
    """What would be sent, by the hour of its enqueue; nothing is. A run that was begun to be sent keeps its place."""
    try:
        source = replace(Source.of(conf, sessions, run), known={})
        with telling_failures():
            found = source.without(source.gone()).counted()
    finally:
        if not is_resumed:
            run.delete()
    if not len(found.seconds):
        raise NothingToDo("Nothing would be sent")
    hours, places = np.unique(found.seconds // 3600, return_inverse=True)
    counts = np.bincount(places, found.messages).astype(int)
    for hour, count in zip(hours.tolist(), counts.tolist(), strict=True):
        say(f"{moment(hour * 3600 * SECOND):%Y-%m-%d %H:00} {count:>9} {'#' * max(1, round(50 * count / max(counts)))}")
    say(f"{counts.sum()} messages")


def bounds_of(counts: "Counts") -> list[int]:
    """The first microsecond of each span but the first: so many messages or bytes, or a second that has more."""
    found: list[int] = []
    messages = size = 0
    for second, more, bytes_ in zip(
        counts.seconds.tolist(), counts.messages.tolist(), counts.sizes.tolist(), strict=True
    ):
        if messages and (messages + more > SPAN_ROWS or size + bytes_ > SPAN_BYTES):
            found.append(second * SECOND)
            messages = size = 0
        messages, size = messages + more, size + bytes_
    return found


@dataclass(frozen=True, slots=True)
class Counts:
    """Of messages and their bytes, by the second of their enqueue; and when each piece of the log begins."""

    seconds: Numbers
    messages: Numbers
    sizes: Numbers
    begins: dict[int, int]


@dataclass(frozen=True, slots=True)
class Source:
    """The messages that are meant and not sent yet, each once."""

    sessions: Sessions
    log: Log
    chosen: Chosen
    where: str | None
    steps: Log  # where it is told which of them are gone
    known: Mapping[int, Seconds]  # by number of the piece, how many are in it
    version: int  # of the slot map by which the log was looked for

    @classmethod
    def of(cls, conf: Conf, sessions: Sessions, run: Replay) -> "Source":
        wish, version, below = Wish.of_json(run.wish), map_version(), horizons_since(conf, run.horizons)
        names = topics_named(conf, wish.namespace, wish.topic)
        if not names:
            raise NothingToDo("There is no such topic")
        first, until = max(wish.first, run.last_at or wish.first), min(wish.last, wish.as_of or wish.last)
        found = counted_pieces(conf, Wanted(messages_of(wish), names), below, first, until)
        log = Log([piece for piece, _ in found], conf.lake.url, names)
        known = {} if wish.where else {number: counts for number, (_, counts) in enumerate(found) if counts}
        days = frozenset() if wish.include_deleted else steps_of(wish)
        steps = Log(pieces(conf, "event", Wanted(days, names, DECIDING), below), conf.lake.url, names)
        as_of = micros(wish.as_of) if wish.as_of else None
        after = (micros(run.last_at), run.last_id) if run.last_at and run.last_id else None
        chosen = Chosen(micros(wish.first), micros(until), as_of, after, (), run.name, wish.into, wish.most_replays)
        return cls(sessions, log, chosen, wish.where, steps, known, version)

    def gone(self) -> tuple[int, ...]:
        """Ids of messages that were cancelled or deleted in the end, as of the time that was asked for."""
        if not self.steps.pieces:
            return ()
        found = numbers(self.sessions.get(), self.steps).mapInArrow(ends(self.steps, self.chosen.as_of_us), ENDS_DDL)
        table = found.toArrow().sort_by([("id", "ascending"), ("at", "ascending")])
        ids, kinds = table["id"].to_numpy(), table["kind"].to_numpy()
        is_last = np.append(ids[1:] != ids[:-1], True) if len(ids) else np.zeros(0, bool)
        return tuple(ids[is_last & np.isin(kinds, GONE)].tolist())

    def without(self, gone: tuple[int, ...]) -> "Source":
        return replace(self, chosen=replace(self.chosen, gone=gone))

    def counted(self) -> Counts:
        """How many messages and bytes there are, by the second of their enqueue, and when each piece begins."""
        begins = {number: min(second for second, _, _ in counts) * SECOND for number, counts in self.known.items()}
        rows = [row for counts in self.known.values() for row in counts]
        if left := [number for number in range(len(self.log.pieces)) if number not in self.known]:
            more, others = self._counted(left)
            rows, begins = rows + more, begins | others
        table = np.array(rows, np.int64).reshape(-1, 3)
        seconds, places = np.unique(table[:, 0], return_inverse=True)
        sums = np.zeros((len(seconds), 2), np.int64)
        np.add.at(sums, places, table[:, 1:])
        return Counts(seconds, sums[:, 0], sums[:, 1], begins)

    def _counted(self, chosen: list[int]) -> tuple[Seconds, dict[int, int]]:
        """By Spark's tasks."""
        work = partial(identities, chosen=self.chosen, parts=PARTS)
        found = self._blocks(self.log.of(chosen), LIGHT, work, BLOCKS_DDL)
        table = found.repartitionById(PARTS + 1, "number").mapInArrow(counter(PARTS), COUNTS_DDL).toArrow()
        is_piece = pc.is_valid(table["piece"])
        pieces, seconds = table.filter(is_piece), table.filter(pc.invert(is_piece))
        begins: dict[int, int] = {}
        for piece, second in zip(pieces["piece"].to_pylist(), pieces["second"].to_pylist(), strict=True):
            begins[piece] = min(second * SECOND, begins.get(piece, second * SECOND))
        if ANY in begins:  # with a condition nobody knows which piece it was
            begins = dict.fromkeys(chosen, 0)
        else:
            begins = {chosen[place]: moment for place, moment in begins.items()}
        rows = zip(*(seconds[name].to_pylist() for name in ("second", "messages", "bytes")), strict=True)
        return [*rows], begins

    def packs(self, counts: Counts, shelf: Shelf, say: Say) -> Generator[pa.Table]:
        """In the order of their enqueue."""
        bounds, taken, left = bounds_of(counts), Taken(shelf), set(counts.begins)
        work = partial(cut, chosen=self.chosen, bounds=bounds, shelf=shelf)
        patience = Patience(self.sessions, say)

        def cut_wave(wave: list[int]) -> list[Place]:
            log = self.log.of(wave)
            table = patience.with_(lambda: self._blocks(log, MESSAGE.schema, work, PLACES_DDL).toArrow())
            places = [Place(*row) for row in zip(*(table[name].to_pylist() for name in PLACES.names), strict=True)]
            taken.laid(places)
            left.difference_update(wave)
            if not left:
                self.sessions.end()  # what is still to be sent needs no Spark, which holds memory
            return places

        try:
            for places in spans(counts.begins, bounds, cut_wave):
                if map_version() != self.version:  # some of it may have been gone when it was read
                    raise LogChanged
                if places:
                    yield from packs(pa.concat_tables(taken.take(places)))
        finally:
            patience.stop()

    def _blocks(self, log: Log, schema: pa.Schema, work: Work, ddl: str) -> DataFrame:
        """A condition is Spark's to judge; without one, rows do not leave the task that reads them."""
        if self.where is None:
            return numbers(self.sessions.get(), log).mapInArrow(reading(log, schema, work), ddl)
        rows = frame(self.sessions.get(), log.url, MESSAGE, log.pieces, log.names, MESSAGE.schema.names)
        rows = rows.withColumn("body", fn.expr("if(is_json, cast(payload AS string), NULL)"))
        return _where(rows, self.where).mapInArrow(taking(work), ddl)


def numbers(spark: SparkSession, log: Log) -> DataFrame:
    return spark.range(0, len(log.pieces), 1, max(1, len(log.pieces)))


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
