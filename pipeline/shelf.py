"""Where tasks lay what the driver takes up, one span of a replay after the other, in files.

Spark 4.3 keeps what `toLocalIterator` has brought until the session ends: a replay of a million messages was the end
of the JVM. So only names go that way. Like all code of tasks it knows no Django.
"""

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from pipeline.storage import Storage

PATHS = pa.schema([("path", pa.string())])
PATHS_DDL = "path string"


@dataclass(frozen=True, slots=True)
class Shelf:
    url: str
    folder: str

    def lay(self, tables: Iterable[pa.Table]) -> str:
        """They are of one schema, and at least one. A task that runs again lays another file."""
        path = f"{self.folder}/{uuid.uuid4().hex}.arrow"
        Storage(self.url).write_stream(path, tables)
        return path

    def take(self, path: str) -> Iterator[pa.Table]:
        """One by one; the file is gone afterwards."""
        storage = Storage(self.url)
        for batch in storage.read_stream(path):
            yield pa.Table.from_batches([batch])
        storage.delete(path)

    def clear(self) -> None:
        storage = Storage(self.url)
        for path in list(storage.list(self.folder)):
            storage.delete(path)
