"""Where tasks lay what the driver or other tasks take up, a file for each piece of work, with a batch for each taker.

Rows would go through the JVM two or three times, and Spark 4.3 keeps what `toLocalIterator` has brought until the
session ends. So only names go that way. Like all code of tasks it knows no Django.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pipeline.storage import Storage

PLACES = pa.schema([("path", pa.string()), ("place", pa.int32()), ("number", pa.int32())])
PLACES_DDL = "path string, place int, number int"


@dataclass(frozen=True, slots=True)
class Shelf:
    url: str
    folder: str

    def lay(self, tables: Sequence[pa.Table]) -> str:
        """They are of one schema, and at least one. A task that runs again lays another file."""
        path = f"{self.folder}/{uuid.uuid4().hex}.arrow"
        Storage(self.url).write_batches(path, tables)
        return path

    def lay_parts(self, parts: Iterable[tuple[int, pa.Table]]) -> Iterator[pa.RecordBatch]:
        """Parts of a table by their number; tells where each of them is."""
        if found := list(parts):
            numbers, tables = zip(*found, strict=True)
            columns = [[self.lay(tables)] * len(found), list(range(len(found))), numbers]
            yield pa.RecordBatch.from_pydict(dict(zip(PLACES.names, columns, strict=True)), schema=PLACES)

    def get(self, path: str, place: int) -> pa.Table:
        """One of those that were laid together."""
        return Storage(self.url).read_batch(path, place)

    def get_all(self, places: Iterable[pa.RecordBatch]) -> list[pa.Table]:
        """What was laid in these places."""
        found = [(batch["path"].to_pylist(), batch["place"].to_pylist()) for batch in places]
        return [self.get(*at) for batch in found for at in zip(*batch, strict=True)]

    def drop(self, path: str) -> None:
        Storage(self.url).delete(path)

    def clear(self) -> None:
        storage = Storage(self.url)
        for path in list(storage.list(self.folder)):
            storage.delete(path)
