"""Pieces of the log, from a file or from a shard, read in Spark tasks: like all code of tasks it knows no Django."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.chunks import CHUNKS_OF, Batches, Names, arranged
from pipeline.layout import LAYOUTS
from pipeline.pull import pull
from pipeline.storage import Storage


@dataclass(frozen=True, slots=True)
class Piece:
    """A file of the lake, or a range of ids of a day on a shard."""

    parent: str
    shard: int
    horizon: int
    path: str = ""
    rows: int = 0  # of the file, all topics'
    day: datetime.date = datetime.date.min
    low: int = 0
    high: int = 0


def reader(pieces: list[Piece], url: str, names: Names, schema: pa.Schema) -> Batches:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_one(pieces[number], Storage(url), names, schema).to_batches(max_chunksize=CHUNKS_OF)

    return read


def read_one(piece: Piece, storage: Storage, names: Names, schema: pa.Schema) -> pa.Table:
    if piece.path:
        table = storage.read(piece.path, schema.names)
    else:
        layout = LAYOUTS[piece.parent]
        table = pull(layout, piece.shard, piece.day, piece.low, piece.high)
    wanted = pc.and_(
        pc.is_in(table["topic_id"], pa.array(sorted(names), pa.int32())), pc.less(table["txid"], piece.horizon)
    )
    table = table.filter(wanted)
    if not piece.path:
        table = arranged(table, names, LAYOUTS[piece.parent])
    return table.select(schema.names).cast(schema)
