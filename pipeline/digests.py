"""What rows come to: a hash each over every column, and for each topic their number, xor and sum.

The same as shards/sql/measure_*.sql computes of the rows in PostgreSQL, so that a file can be held against its origin.
A hash finds what was lost, doubled or damaged; it is no seal against somebody who forges files. The xor is of the
hashes themselves, the sum of what each comes to together with its row's id.
"""

from dataclasses import asdict, dataclass
from hashlib import md5

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.layout import Layout
from pipeline.lookup3 import Hashes, of_numbers, of_rows, of_texts

LONG = 4_096  # bytes, as measure_*.sql has it
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
    words = np.concatenate([hashes(batch, layout) for batch in table.to_batches()])
    mixed = of_numbers(words.view(np.int64), ids) & np.uint64(0xFFFFFFFF)
    rows = np.diff(np.append(starts, len(topics)))
    columns = (
        topics[starts],
        rows,
        np.minimum.reduceat(ids, starts),
        np.maximum.reduceat(ids, starts),
        np.add.reduceat(lengths, starts),
        np.bitwise_xor.reduceat(words, starts).view(np.int64),
        np.add.reduceat(mixed, starts).astype(np.int64),
    )
    return [Sums(*map(int, row)) for row in zip(*columns, strict=True)]


def hashes(batch: pa.RecordBatch, layout: Layout) -> Hashes:
    """Of each row."""
    columns = [_of_numbers(batch[name]) for name, _ in layout.numbers]
    for name, kind in layout.texts:
        columns.append(of_texts(_shortened(batch[name]) if kind == pa.binary() else batch[name]))
    return of_rows(columns)


def _shortened(texts: pa.BinaryArray) -> pa.BinaryArray:
    """The MD5 of what is long: hashing many rows side by side is only quick while they are short."""
    is_long = pc.fill_null(pc.greater(pc.binary_length(texts), LONG), False)
    if not pc.any(is_long).as_py():
        return texts
    digests = [md5(text, usedforsecurity=False).digest() for text in texts.filter(is_long).to_pylist()]
    return pc.replace_with_mask(texts, is_long, pa.array(digests, pa.binary()))


def _of_numbers(column: pa.Array) -> Hashes:
    """As PostgreSQL has them: times and days count from 2000."""
    epoch = 0
    if pa.types.is_timestamp(column.type):
        epoch = POSTGRES_EPOCH_US
    elif pa.types.is_date(column.type):
        column, epoch = column.cast(pa.int32()), POSTGRES_EPOCH_DAYS
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    numbers = pc.fill_null(column.cast(pa.int64()), 0).to_numpy() - epoch
    if len(numbers) and (numbers == numbers[0]).all():  # as of a day
        found = np.repeat(of_numbers(numbers[:1]), len(numbers))
    else:
        found = of_numbers(numbers)
    if column.null_count:
        found[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return found
