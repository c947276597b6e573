"""Rows on their way between tasks, many in one value: Spark then moves bytes, and knows nothing of the rows."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

BLOCKS = pa.schema([("number", pa.int32()), ("rows", pa.binary())])
BLOCKS_DDL = "number int, rows binary"
Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


def blocks(table: pa.Table, numbers: Numbers) -> Iterator[pa.RecordBatch]:
    """The rows by the number of the task that takes them on."""
    for number, part in parted(table, numbers):
        yield block(number, part)


def parted(table: pa.Table, numbers: Numbers) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each number."""
    if not table.num_rows:
        return
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    for number, start, end in zip(found.tolist(), starts, [*starts[1:], len(order)], strict=True):
        yield number, table.take(order[start:end])


def block(number: int, table: pa.Table) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    return pa.RecordBatch.from_pydict({"number": [number], "rows": [sink.getvalue().to_pybytes()]}, schema=BLOCKS)


def joined(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """All that came to a task, or a table of nothing."""
    found = [unpacked(rows) for batch in batches for rows in batch.column("rows").to_pylist()]
    return pa.concat_tables(found).combine_chunks() if found else pa.table({})


def unpacked(rows: bytes) -> pa.Table:
    with pa.ipc.open_stream(rows) as stream:
        return stream.read_all()
