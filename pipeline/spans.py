"""What a replay sends, on its way from the log to the door, in Spark tasks: like all code of tasks it knows no Django.

Pieces of the log are cut where they are read: each span of time becomes a block of messages as they will be sent, and
is laid on the shelf. Whoever has all blocks of a span puts it in order and hands it out in packs. A message that is in
the log twice was enqueued once, so both are in one span.
"""

import datetime
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.blocks import block, blocks, joined, parted
from pipeline.chunks import Batches, Names
from pipeline.layout import EVENT, MESSAGE
from pipeline.messages import rendered, slots_of
from pipeline.pieces import Piece, read_one
from pipeline.shelf import Shelf
from pipeline.storage import Storage
from shards.routing import SLOTS

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
SECOND = 1_000_000
LANES = 8  # topics of different lanes are sent side by side
PACK_ROWS, PACK_BYTES = 16_000, 8 << 20
GONE = (11, 12)  # kinds of events: cancelled, deleted
DECIDING = (*GONE, 10)  # and replayed
COUNTS = pa.schema([("second", pa.int64()), ("messages", pa.int64()), ("bytes", pa.int64()), ("piece", pa.int64())])
COUNTS_DDL = "second long, messages long, bytes long, piece long"
ENDS = pa.schema([("id", pa.int64()), ("at", pa.int64()), ("kind", pa.int16())])
ENDS_DDL = "id long, at long, kind short"
LIGHT = pa.schema([MESSAGE.schema.field(name) for name in ("id", "txid", "enqueued_at", "topic_id", "payload_bytes")])
STEPS = pa.schema([EVENT.schema.field(name) for name in ("id", "txid", "at", "topic_id", "kind")])

ANY = -1  # the number of a piece, where that is not known
Numbered = tuple[int, pa.Table]  # a piece of the log, and what is in it
Work = Callable[[Iterable[Numbered]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which messages, and how they are sent."""

    first_us: int
    until_us: int
    as_of_us: int | None  # what was cancelled or deleted later is meant
    after: tuple[int, int] | None  # time and id of the last that was sent
    gone: tuple[int, ...]
    run: str
    into: str | None
    most_replays: int

    def of(self, table: pa.Table) -> pa.Table:
        at = table["enqueued_at"].cast(pa.int64())
        wanted = pc.and_(pc.greater_equal(at, self.first_us), pc.less(at, self.until_us))
        if self.after:
            sent_at, sent_id = self.after
            later = pc.and_(pc.equal(at, sent_at), pc.greater(table["id"], sent_id))
            wanted = pc.and_(wanted, pc.or_(pc.greater(at, sent_at), later))
        if self.gone:
            wanted = pc.and_not(wanted, pc.is_in(table["id"], pa.array(self.gone, pa.int64())))
        return table.filter(wanted)


@dataclass(frozen=True, slots=True)
class Log:
    """The pieces of it that are read, by number."""

    pieces: list[Piece]
    url: str
    names: Names

    def of(self, numbers: Sequence[int]) -> "Log":
        """Some pieces alone, numbered anew."""
        return replace(self, pieces=[self.pieces[number] for number in numbers])

    def tables(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, kinds: Sequence[int] = ()
    ) -> Iterator[Numbered]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield number, read_one(self.pieces[number], Storage(self.url), self.names, schema, kinds)


def reading(log: Log, schema: pa.Schema, work: Work) -> Batches:
    """Work on the pieces whose numbers come."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from work(log.tables(batches, schema))

    return read


def taking(work: Work) -> Batches:
    """Work on the rows that come, which are those of one piece."""

    def take(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if found := list(batches):
            yield from work([(ANY, pa.Table.from_batches(found))])

    return take


def ends(log: Log, until_us: int | None) -> Batches:
    """Steps that decide whether a message is still meant."""

    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, table in log.tables(batches, STEPS, kinds=DECIDING):
            if until_us is not None:
                table = table.filter(pc.less_equal(table["at"].cast(pa.int64()), until_us))  # noqa: PLW2901
            yield from table.select(ENDS.names).cast(ENDS).to_batches()

    return find


def identities(tables: Iterable[Numbered], chosen: Chosen, parts: int) -> Iterator[pa.RecordBatch]:
    """What has to be known to count messages, in blocks by the second; and in one more, when each piece begins."""
    for number, table in ((number, chosen.of(table)) for number, table in tables):
        if not table.num_rows:
            continue
        seconds = table["enqueued_at"].cast(pa.int64()).to_numpy() // SECOND
        light = pa.table({"id": table["id"], "second": seconds, "bytes": table["payload_bytes"].cast(pa.int64())})
        yield from blocks(light, seconds % parts)
        first = [number], [int(seconds.min())], [0]
        yield block(parts, pa.table([pa.array(column, pa.int64()) for column in first], schema=light.schema))


def counter(parts: int) -> Batches:
    """Messages and bytes by the second, of all blocks of some seconds; or the first second of each piece."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        came = list(batches)
        table = joined(came)
        if not table.num_rows:
            return
        nothing = pa.nulls(table.num_rows, pa.int64())
        if came[0].column("number")[0].as_py() == parts:
            columns = [table["second"], nothing, nothing, table["id"]]
        else:
            _, firsts = np.unique(table["id"].to_numpy(), return_index=True)
            found = table.take(firsts).group_by("second").aggregate([("id", "count"), ("bytes", "sum")])
            columns = [found["second"], found["id_count"], found["bytes_sum"], nothing.slice(0, found.num_rows)]
        yield from pa.Table.from_arrays(columns, schema=COUNTS).to_batches()

    return count


def cut(tables: Iterable[Numbered], chosen: Chosen, bounds: list[int], shelf: Shelf) -> Iterator[pa.RecordBatch]:
    """By the span of time, onto the shelf: `bounds` are the first microseconds of all spans but the first."""
    for table in (chosen.of(table) for _, table in tables):
        if not table.num_rows:
            continue
        at = table["enqueued_at"].cast(pa.int64())
        slots = slots_of(table, chosen.into)
        lines = rendered(table, slots, chosen.run, chosen.into, chosen.most_replays)
        lanes = pa.array(slots * LANES // SLOTS, pa.int8())
        ready = pa.table({"at": at, "id": table["id"], "lane": lanes, "line": lines})
        yield from shelf.lay_parts(parted(ready, np.searchsorted(bounds, at.to_numpy(), "right")))


def packs(table: pa.Table) -> Iterator[pa.Table]:
    """Each message once, in the order of their enqueue, so many at a time."""
    _, firsts = np.unique(table["id"].to_numpy(), return_index=True)  # by id
    table = table.take(pa.array(firsts[np.argsort(table["at"].to_numpy()[firsts], kind="stable")]))
    sizes = np.cumsum(pc.fill_null(pc.binary_length(table["line"]), 0).to_numpy(zero_copy_only=False).astype(np.int64))
    start = 0
    while start < table.num_rows:
        before = sizes[start - 1] if start else 0
        end = min(start + PACK_ROWS, max(start + 1, int(np.searchsorted(sizes, before + PACK_BYTES, "right"))))
        yield table.slice(start, end - start)
        start = end


def micros(moment: datetime.datetime) -> int:
    return (moment - EPOCH) // datetime.timedelta(microseconds=1)


def moment(microseconds: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(microseconds=microseconds)
