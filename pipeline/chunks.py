"""One piece of the archive: a range of ids of one partition, from its shard into one file, read back and summed up.

Runs in a Spark task, so it may run twice: each try writes a file of its own name, and only what is returned counts.
"""

import datetime
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.digests import sums
from pipeline.layout import LAYOUTS, Layout
from pipeline.pull import pull
from pipeline.storage import Storage
from shards.lake import folder_of

Names = dict[int, tuple[str, str]]
CHUNK_BYTES = 64 << 20  # of rows, about
CHUNKS_OF = 10_000  # rows of one batch between Python and the JVM
UNREADABLE = -1  # the topic of a file that gives no rows
STATS = pa.schema([
    ("chunk", pa.int32()), ("path", pa.string()), ("size", pa.int64()), ("namespace", pa.string()),
    ("name", pa.string()), ("topic", pa.int32()), ("rows", pa.int64()), ("min_id", pa.int64()), ("max_id", pa.int64()),
    ("bytes", pa.int64()), ("xor", pa.int64()), ("sum", pa.int64()),
])  # fmt: skip
STATS_DDL = (
    "chunk int, path string, size long, namespace string, name string, topic int, rows long, min_id long, "
    "max_id long, bytes long, xor long, sum long"
)


@dataclass(frozen=True, slots=True)
class Chunk:
    deployment: str
    parent: str
    shard: int
    day: datetime.date
    term: int
    low: int
    high: int
    names: Names
    empty: frozenset[str] = frozenset()  # columns without a value in any row: nobody fetches them

    def new_path(self) -> str:
        """The term in it tells whether whoever wrote it may still publish it."""
        folder = folder_of(self.deployment, self.parent, self.day, self.shard)
        return f"{folder}/{self.term}-{uuid.uuid4().hex}.parquet"


Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def copier(chunks: list[Chunk], url: str) -> Batches:
    """For mapInArrow over the chunks' numbers."""

    def copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield copy_one(number, chunks[number], Storage(url))

    return copy


def copy_one(number: int, chunk: Chunk, storage: Storage) -> pa.RecordBatch:
    layout = LAYOUTS[chunk.parent]
    path = chunk.new_path()
    columns = [name for name in layout.pulled.names if name not in chunk.empty]
    table = arranged(pull(layout, chunk.shard, chunk.day, chunk.low, chunk.high, columns), chunk.names, layout)
    size = storage.write(path, table)
    del table
    return read_back(number, path, size, storage, layout)


def arranged(table: pa.Table, names: Names, layout: Layout) -> pa.Table:
    """With names, sorted by namespace, topic, and then id; columns that were not fetched are null."""
    numbers = sorted(names, key=lambda number: names[number])
    topics = table["topic_id"].to_numpy()
    by_number = np.argsort(numbers)
    ranks = by_number[np.searchsorted(np.asarray(numbers)[by_number], topics)] if numbers else topics
    order = pc.sort_indices(
        pa.table([pa.array(ranks), *(table[name] for name in layout.then_by)], ["rank", *layout.then_by]),
        sort_keys=[("rank", "ascending"), *((name, "ascending") for name in layout.then_by)],
    )
    ranks = pa.array(ranks[order.to_numpy()].astype(np.int32))
    words = [pa.array([names[number][place] for number in numbers], pa.string()).take(ranks) for place in (0, 1)]
    table = table.take(order)
    columns = [
        table[field.name] if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in layout.pulled
    ]
    return pa.Table.from_arrays([*words, *columns], schema=layout.schema)


def read_back(number: int, path: str, size: int, storage: Storage, layout: Layout) -> pa.RecordBatch:
    """What the file holds; one that cannot be read is told as one that holds nothing right."""
    try:
        return summed_up(number, path, size, storage.read(path), layout)
    except (OSError, ValueError, KeyError, pa.ArrowException):
        nothing = dict.fromkeys(STATS.names, 0) | {"chunk": number, "path": path, "namespace": "", "name": ""}
        return pa.RecordBatch.from_pylist([nothing | {"topic": UNREADABLE}], schema=STATS)


def summed_up(number: int, path: str, size: int, table: pa.Table, layout: Layout) -> pa.RecordBatch:
    """What the file holds, told from the file."""
    table = table.cast(layout.schema)
    pairs = table.select(["topic_id", "namespace", "topic"]).group_by(["topic_id", "namespace", "topic"]).aggregate([])
    names = {row["topic_id"]: (row["namespace"], row["topic"]) for row in pairs.to_pylist()}
    if len(names) != pairs.num_rows:
        raise ValueError(f"{path}: one topic has two names")
    rows = [
        {"chunk": number, "path": path, "size": size, "namespace": names[one.topic][0], "name": names[one.topic][1]}
        | one.as_dict()
        for one in sums(table, layout)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=STATS)
