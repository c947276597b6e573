"""replay: send messages of the past again, in their old order, through the service's own door.

Each has an idempotency key of this run and its id, so a batch that is sent again adds nothing; and the run keeps how
far it has come, so that one that was killed goes on there.
"""

import datetime
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.utils import timezone
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as fn

from mqueue.core.conf import Conf
from pipeline.door import Door
from pipeline.errors import NothingToDo, PipelineError
from pipeline.layout import EVENT, MESSAGE
from pipeline.log import Wanted, days_between, frame, horizons, pieces, topics_named
from pipeline.messages import Unsendable, as_sent
from pipeline.models import Replay
from pipeline.spark import Sessions

AHEAD_DAYS = 91  # a message may be scheduled as far, and lies in the log on the day when it is due
BATCH, BATCH_BYTES = 1_000, 4 << 20
SAY_EVERY_S = 2.0
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
GONE, AGAIN = (11, 12), 10  # kinds of events: cancelled, deleted; replayed
Say = Callable[[str], None]


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

    def as_json(self) -> dict[str, Any]:
        return {name: _text(getattr(self, name)) for name in self.__slots__}

    @classmethod
    def of_json(cls, kept: dict[str, Any]) -> "Wish":
        times = {name: _time(kept[name]) for name in ("first", "last", "as_of")}
        return cls(**{**kept, **times})


def begin(conf: Conf, wish: Wish) -> Replay:
    """The run is on record before anything is read: from then on its days stay where they are."""
    days = sorted(days_between(wish.first, wish.last, AHEAD_DAYS))
    return Replay.objects.create(name=uuid.uuid4().hex[:12], wish=wish.as_json(), days=days, horizons=horizons(conf))


def resume(conf: Conf, name: str) -> Replay:
    run = Replay.objects.filter(name=name).first()
    if run is None:
        raise PipelineError(f"There is no replay {name}")
    if run.state == Replay.State.DONE:
        raise NothingToDo(f"Replay {name} is done: {run.sent} were sent")
    window = datetime.timedelta(milliseconds=conf.retention.dedupe_window_ms)
    if timezone.now() - run.touched_at > window:
        raise PipelineError(
            f"Replay {name} rested for longer than the dedupe window, so its last batch might be added twice: "
            f"begin another one from {run.last_at}"
        )
    return run


def replay(conf: Conf, sessions: Sessions, run: Replay, say: Say, door: Door, rate: float | None) -> None:
    wish = Wish.of_json(run.wish)
    say(f"replay {run.name}")
    total = min(sum(count for _, count in histogram(conf, sessions, run)), wish.most or 1 << 62)
    sent = Sending(run, wish, door, rate, total, say)
    in_order = chosen(conf, sessions, run).orderBy("enqueued_us", "id")
    for row in in_order.toLocalIterator(prefetchPartitions=True):
        if wish.most is not None and run.sent + len(sent.batch) >= wish.most:
            break
        sent.add(row)
    sent.flush()
    run.state = Replay.State.DONE
    run.save(update_fields=["state"])
    say(f"replay {run.name} is done: {run.sent} sent, {sent.skipped} skipped, {sent.duplicates} were there already")
    if not run.sent:
        raise NothingToDo("Nothing was to be sent")


def histogram(conf: Conf, sessions: Sessions, run: Replay) -> list[tuple[datetime.datetime, int]]:
    """Messages by the hour of their enqueue."""
    hours = chosen(conf, sessions, run).groupBy(fn.expr("enqueued_us div 3600000000").alias("hour")).count()
    return [(_hour(row["hour"]), row["count"]) for row in hours.orderBy("hour").collect()]


def dry_run(conf: Conf, sessions: Sessions, run: Replay, say: Say) -> None:
    """What would be sent, by the hour; nothing is."""
    try:
        found = histogram(conf, sessions, run)
    finally:
        run.delete()
    if not found:
        raise NothingToDo("Nothing would be sent")
    most = max(count for _, count in found)
    for hour, count in found:
        say(f"{hour:%Y-%m-%d %H:00} {count:>9} {'#' * max(1, round(50 * count / most))}")
    say(f"{sum(count for _, count in found)} messages")


def chosen(conf: Conf, sessions: Sessions, run: Replay) -> DataFrame:
    """The messages that are meant and not sent yet, each once. Times that leave Spark are microseconds: as times they
    would be taken for the driver's own zone."""
    wish = Wish.of_json(run.wish)
    names = topics_named(conf, wish.namespace, wish.topic)
    if not names:
        raise NothingToDo("There is no such topic")
    wanted = Wanted(frozenset(run.days), names)
    spark = sessions.get()
    found = pieces(conf, "message", wanted, run.horizons)
    messages = frame(spark, conf.lake.url, MESSAGE, found, names, MESSAGE.schema.names)
    until = min(wish.last, wish.as_of) if wish.as_of else wish.last
    messages = messages.where((fn.col("enqueued_at") >= fn.lit(wish.first)) & (fn.col("enqueued_at") < fn.lit(until)))
    messages = messages.withColumn("enqueued_us", fn.unix_micros("enqueued_at"))
    messages = messages.withColumn("deliver_after_us", fn.unix_micros("deliver_after"))
    if run.last_at is not None and run.last_id is not None:
        after = fn.struct("enqueued_us", "id") > fn.struct(_long(_micros(run.last_at)), _long(run.last_id))
        messages = messages.where(after)
    messages = messages.dropDuplicates(["id"])
    if wish.where:
        messages = _where(
            messages.withColumn("body", fn.expr("if(is_json, cast(payload AS string), NULL)")), wish.where
        )
    return messages if wish.include_deleted else messages.join(_gone(conf, sessions, run, wanted), "id", "left_anti")


def _gone(conf: Conf, sessions: Sessions, run: Replay, wanted: Wanted) -> DataFrame:
    """Ids of messages that were cancelled or deleted in the end, as of the time that was asked for."""
    wish = Wish.of_json(run.wish)
    today = timezone.now().date()
    later = frozenset(min(wanted.days) + datetime.timedelta(n) for n in range((today - min(wanted.days)).days + 1))
    found = pieces(conf, "event", Wanted(later, wanted.names), run.horizons)
    events = frame(sessions.get(), conf.lake.url, EVENT, found, wanted.names, ["at", "kind"])
    if wish.as_of:
        events = events.where(fn.col("at") <= fn.lit(wish.as_of))
    ends = events.where(fn.col("kind").isin(*GONE, AGAIN))
    newest = Window.partitionBy("id").orderBy(fn.desc("at"))
    last = ends.withColumn("n", fn.row_number().over(newest)).where("n = 1")
    return last.where(fn.col("kind").isin(*GONE)).select("id")


def _where(messages: DataFrame, condition: str) -> DataFrame:
    try:
        chosen = messages.where(condition)
        _ = chosen.schema  # Spark Connect looks at it no sooner
        return chosen
    except (AnalysisException, ParseException) as error:
        raise PipelineError(f"--where: {str(error).splitlines()[0]}") from error


class Sending:
    """Batches on their way, and how far they have come."""

    def __init__(self, run: Replay, wish: Wish, door: Door, rate: float | None, total: int, say: Say) -> None:
        self._run, self._wish, self._door, self._rate, self._say = run, wish, door, rate, say
        self._total = run.sent + total
        self.batch: list[bytes] = []
        self._bytes = self.skipped = self.duplicates = 0
        self._position: Row | None = None
        self._began, self._before = time.monotonic(), run.sent
        self._said = self._began

    def add(self, row: Row) -> None:
        self._position = row
        try:
            message = as_sent(row, self._run.name, self._wish.into, self._wish.most_replays)
        except Unsendable:
            self.skipped += 1
            return
        self.batch.append(message)
        self._bytes += len(message)
        full = BATCH if self._rate is None else max(1, min(BATCH, int(self._rate)))
        if len(self.batch) >= full or self._bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._position is None:
            return
        if self.batch:
            self.duplicates += self._door.enqueue(self.batch)
        run = self._run
        run.sent += len(self.batch)
        run.last_at, run.last_id = _moment(self._position["enqueued_us"]), self._position["id"]
        run.touched_at = timezone.now()
        run.save(update_fields=["sent", "last_at", "last_id", "touched_at"])
        self.batch, self._bytes, self._position = [], 0, None
        self._tell()
        if self._rate:
            time.sleep(max(0.0, self._began + (run.sent - self._before) / self._rate - time.monotonic()))

    def _tell(self) -> None:
        if time.monotonic() - self._said >= SAY_EVERY_S:
            self._said = time.monotonic()
            self._say(f"{self._run.sent} of {self._total} sent ({100 * self._run.sent // max(1, self._total)} %)")


def _text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def _time(text: str | None) -> datetime.datetime | None:
    return datetime.datetime.fromisoformat(text) if text else None


def _moment(microseconds: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(microseconds=microseconds)


def _long(value: int) -> Column:
    """A literal is an int where it is small enough, and does not compare then."""
    return fn.lit(value).cast("long")


def _micros(moment: datetime.datetime) -> int:
    return (moment - EPOCH) // datetime.timedelta(microseconds=1)


def _hour(number: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(hours=number)
