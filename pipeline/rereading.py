"""Files of the lake read again and summed up, in Spark tasks: like all code of tasks it knows no Django."""

from collections.abc import Iterator

import pyarrow as pa

from pipeline.chunks import STATS, Batches, summed_up
from pipeline.layout import LAYOUTS
from pipeline.storage import Storage

UNREADABLE = -1  # the topic of a file that gives no rows


def reader(files: list[tuple[str, str]], url: str) -> Batches:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                path, parent = files[number]
                yield read_one(number, path, parent, Storage(url))

    return read


def read_one(number: int, path: str, parent: str, storage: Storage) -> pa.RecordBatch:
    """A file that cannot be read is told as one that holds nothing right."""
    try:
        return summed_up(number, path, 0, storage.read(path), LAYOUTS[parent])
    except (OSError, ValueError, KeyError, pa.ArrowException):
        nothing = dict.fromkeys(STATS.names, 0) | {"chunk": number, "path": path, "namespace": "", "name": ""}
        return pa.RecordBatch.from_pylist([nothing | {"topic": UNREADABLE}], schema=STATS)
