"""stream: enrich the leads of a topic, as they come, into another topic.

Spark keeps in the checkpoint which batch it is at. One that was killed is done again, with the same rows, and each
row's idempotency key is its lead's id and the target: so each lead is in the target once, wherever the run was killed.
"""

import signal
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from pyspark.errors import StreamingQueryException

from mqueue.core.conf import Conf
from pipeline import enrich, source
from pipeline.errors import NothingToDo, PipelineError
from pipeline.spark import Sessions, began_too_slowly
from pipeline.turns import turn

POLL_S = 0.5
TRIES = 30  # some minutes
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Flow:
    """From where to where. `starting` counts at the first run alone: later ones go on where the checkpoint is."""

    namespace: str
    topic: str
    into: str
    checkpoint: str
    starting: str
    max_rows: int
    every: float
    once: bool
    url: str | None


def stream(conf: Conf, sessions: Sessions, flow: Flow, say: Say) -> None:
    with turn(conf, zlib.crc32(flow.checkpoint.encode())), stopped_by_signals() as stopping:
        told = Telling(say)
        for left in reversed(range(TRIES)):
            try:
                follow(begin(sessions, flow), told, stopping)
                break
            except StreamingQueryException as error:
                if not left or not began_too_slowly(error):
                    raise PipelineError(reason(error)) from error
        say(f"{told.rows} leads enriched")
    if flow.once and not told.rows:
        raise NothingToDo("Nothing has come since the last run")


def follow(query: Any, told: "Telling", stopping: list[int]) -> None:
    """Until it ends, or is to."""
    while not query.awaitTermination(POLL_S) and not stopping:
        told.tell(query)
    query.stop()
    told.tell(query)


def begin(sessions: Sessions, flow: Flow) -> Any:
    spark = sessions.get()
    source.register(spark)
    leads = spark.readStream.format("mqueue").schema(enrich.COLUMNS).options(
        namespace=flow.namespace, topic=flow.topic, startingOffsets=flow.starting, maxRowsPerTrigger=flow.max_rows,
    ).load()  # fmt: skip
    found = enrich.enriched(leads, flow.into)
    sink = found.writeStream.format("mqueue").queryName(f"{flow.namespace}/{flow.topic}").options(
        namespace=flow.namespace, topic=flow.into, checkpointLocation=flow.checkpoint,
        **({"url": flow.url} if flow.url else {}),
    )  # fmt: skip
    when = {"availableNow": True} if flow.once else {"processingTime": f"{flow.every} seconds"}
    return sink.trigger(**when).start()


class Telling:
    """Each batch once."""

    def __init__(self, say: Say) -> None:
        self._say, self._last, self.rows = say, -1, 0

    def tell(self, query: Any) -> None:
        for one in query.recentProgress:
            if one["batchId"] > self._last and one["numInputRows"]:
                self._last = one["batchId"]
                self.rows += one["numInputRows"]
                seconds = one["batchDuration"] / 1000
                self._say(f"batch {one['batchId']}: {one['numInputRows']} leads in {seconds:.1f} s, {self.rows} in all")


@contextmanager
def stopped_by_signals() -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM end the run between two batches."""
    stopping: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        stopping.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def reason(error: Exception) -> str:
    """Of a long text the line that says it."""
    lines = [line.strip() for line in str(error).splitlines()]
    named = [line for line in lines if "PipelineError" in line]
    return (named or lines)[-1 if named else 0]
