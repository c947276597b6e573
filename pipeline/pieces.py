"""Pieces of the log, from a file or from a shard, read in Spark tasks: like all code of tasks it knows no Django."""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.chunks import CHUNKS_OF, Batches, Names, arranged
from pipeline.layout import LAYOUTS
from pipeline.pull import pull
from pipeline.storage import Storage

HIGHEST_ID = 2**63 - 1
FEW_TOPICS = 1_000  # as many are told to whoever has the rows; of more, he gives all that he has


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of ids of a file of the lake, or of a day on a shard."""

    parent: str
    shard: int
    horizon: int
    path: str = ""
    rows: int = 0  # of the whole file, or of the range about
    day: datetime.date = datetime.date.min
    low: int = 0
    high: int = HIGHEST_ID


def reader(pieces: list[Piece], url: str, names: Names, schema: pa.Schema) -> Batches:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_one(pieces[number], Storage(url), names, schema).to_batches(max_chunksize=CHUNKS_OF)

    return read


def few(names: Names) -> list[int] | None:
    return sorted(names) if len(names) <= FEW_TOPICS else None


def read_one(piece: Piece, storage: Storage, names: Names, schema: pa.Schema, kinds: Sequence[int] = ()) -> pa.Table:
    """Of events, some kinds alone, if they are told."""
    layout, is_named = LAYOUTS[piece.parent], not {"namespace", "topic"}.isdisjoint(schema.names)
    if piece.path:
        table = storage.read(piece.path, schema.names, few(names), (piece.low, piece.high), kinds)
    else:
        columns = () if is_named else schema.names
        table = pull(layout, piece.shard, piece.day, piece.low, piece.high, columns, kinds, few(names))
    wanted = pc.and_(
        pc.is_in(table["topic_id"], pa.array(sorted(names), pa.int32())), pc.less(table["txid"], piece.horizon)
    )
    if not pc.all(wanted).as_py():
        table = table.filter(wanted)
    if is_named and not piece.path:
        table = arranged(table, names, layout)
    return table.select(schema.names).cast(schema)
