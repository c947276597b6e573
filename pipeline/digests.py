"""What rows come to: a digest each over every column, and for each topic their number, xor and sum.

The same as shards/sql/measure_*.sql computes of the rows in PostgreSQL, so that a file can be held against its origin.
MD5 finds what was lost, doubled or damaged; it is no seal against somebody who forges files.
"""

from dataclasses import asdict, dataclass
from hashlib import md5
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.layout import Layout

NULL = np.iinfo(np.int64).min
POSTGRES_EPOCH_US = 946_684_800_000_000
POSTGRES_EPOCH_DAYS = 10_957


@dataclass(frozen=True, slots=True)
class Sums:
    """Of the rows of one topic."""

    topic: int
    rows: int
    min_id: int
    max_id: int
    bytes: int
    xor: int
    sum: int

    def __add__(self, other: "Sums") -> "Sums":
        assert self.topic == other.topic
        return Sums(
            self.topic,
            self.rows + other.rows,
            min(self.min_id, other.min_id),
            max(self.max_id, other.max_id),
            self.bytes + other.bytes,
            self.xor ^ other.xor,
            self.sum + other.sum,
        )

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def add_up(parts: "list[Sums]") -> dict[int, Sums]:
    """By topic."""
    found: dict[int, Sums] = {}
    for part in parts:
        found[part.topic] = found[part.topic] + part if part.topic in found else part
    return found


def sums(table: pa.Table, layout: Layout) -> list[Sums]:
    """Of a table whose rows of one topic stand together."""
    if not table.num_rows:
        return []
    topics = table["topic_id"].to_numpy()
    starts = np.flatnonzero(np.concatenate(([True], topics[1:] != topics[:-1])))
    ids = table["id"].to_numpy()
    lengths = pc.fill_null(pc.binary_length(table[layout.bytes_of]), 0).to_numpy().astype(np.int64)
    words = digests(table, layout)
    rows = np.diff(np.append(starts, len(topics)))
    columns = (
        topics[starts],
        rows,
        np.minimum.reduceat(ids, starts),
        np.maximum.reduceat(ids, starts),
        np.add.reduceat(lengths, starts),
        np.bitwise_xor.reduceat(words[:, 0], starts).view(np.int64),
        np.add.reduceat(words[:, 1] & np.uint64(0xFFFFFFFF), starts).astype(np.int64),
    )
    return [Sums(*map(int, row)) for row in zip(*columns, strict=True)]


def digests(table: pa.Table, layout: Layout) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Two words a row."""
    rows = _joined(table, layout)
    offsets = np.frombuffer(rows.buffers()[1], np.int32)[rows.offset : rows.offset + len(rows) + 1].tolist()
    data = memoryview(rows.buffers()[2])
    found = b"".join([md5(data[begin:end], usedforsecurity=False).digest() for begin, end in pairwise(offsets)])
    return np.frombuffer(found, ">u8").astype(np.uint64).reshape(-1, 2)


def _joined(table: pa.Table, layout: Layout) -> pa.BinaryArray:
    """Each row as bytes."""
    texts = [_one(table[name]).cast(pa.binary()) for name, _ in layout.texts]
    numbers = [_number(_one(table[name])) for name, _ in layout.numbers]
    numbers += [pc.fill_null(pc.binary_length(text), -1).to_numpy().astype(np.int64) for text in texts]
    block = np.column_stack(numbers).astype(">i8")
    offsets = np.arange(len(block) + 1, dtype=np.int32) * (8 * len(numbers))
    heads = pa.BinaryArray.from_buffers(
        pa.binary(), len(block), [None, pa.py_buffer(offsets), pa.py_buffer(block.tobytes())]
    )
    return pc.binary_join_element_wise(heads, *texts, b"", null_handling="replace", null_replacement="")


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _number(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """As PostgreSQL sends it: times and days count from 2000."""
    if pa.types.is_timestamp(column.type):
        return _filled(column.cast(pa.int64()), POSTGRES_EPOCH_US)
    if pa.types.is_date(column.type):
        return _filled(column.cast(pa.int32()).cast(pa.int64()), POSTGRES_EPOCH_DAYS)
    if pa.types.is_boolean(column.type):
        return _filled(column.cast(pa.int8()).cast(pa.int64()), 0)
    return _filled(column.cast(pa.int64()), 0)


def _filled(column: pa.Array, epoch: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    missing = column.is_null().to_numpy(zero_copy_only=False)
    numbers: np.ndarray[Any, np.dtype[np.int64]] = pc.fill_null(column, epoch).to_numpy() - epoch
    return np.where(missing, NULL, numbers)
