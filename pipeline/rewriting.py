"""Rows of some files of the lake in one new file, in Spark tasks: like all code of tasks it knows no Django.

A task may run twice: each try writes a file of its own name, and only what is returned counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from pipeline.chunks import Batches, Chunk, arranged, read_back
from pipeline.layout import LAYOUTS
from pipeline.storage import Storage


@dataclass(frozen=True, slots=True)
class Merging:
    """Of each source the rows of these topics."""

    sources: dict[str, list[int]]
    into: Chunk


def merger(jobs: list[Merging], url: str) -> Batches:
    """For mapInArrow over the jobs' numbers."""

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield merge_one(number, jobs[number], Storage(url))

    return merge


def merge_one(number: int, job: Merging, storage: Storage) -> pa.RecordBatch:
    layout, path = LAYOUTS[job.into.parent], job.into.new_path()
    names = layout.pulled.names
    rows = [storage.read(source, names, topics).cast(layout.pulled) for source, topics in job.sources.items()]
    size = storage.write(path, arranged(pa.concat_tables(rows), job.into.names, layout))
    del rows
    return read_back(number, path, size, storage, layout)
