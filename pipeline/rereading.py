"""Files of the lake read again and summed up, in Spark tasks: like all code of tasks it knows no Django."""

from collections.abc import Iterator

import pyarrow as pa

from pipeline.chunks import Batches, read_back
from pipeline.layout import LAYOUTS
from pipeline.storage import Storage


def reader(files: list[tuple[str, str]], url: str) -> Batches:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                path, parent = files[number]
                yield read_back(number, path, 0, Storage(url), LAYOUTS[parent])

    return read
