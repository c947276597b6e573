"""How much lies between two txids: counted by the shards where rows are live, and by few columns of files."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from mqueue.core.conf import conf
from pipeline.chunks import Names
from pipeline.pieces import Piece
from pipeline.source.options import Asked
from pipeline.source.planning import days_of
from pipeline.source.reading import TIME_OF, Part, Rows, condition
from pipeline.source.sizes import Size
from shards.lake import open_lake
from shards.retention import connected
from shards.sql import statement

EVENT_BYTES, ROW_BYTES = 100, 400
WIDTH = 10_000  # transactions to look at first
Counts = tuple[np.ndarray, np.ndarray, np.ndarray]  # txids, and of each the rows and bytes


@dataclass
class Files:
    """What is known of files, which never change, for as long as the stream runs."""

    lake: str
    extents: dict[str, tuple[int, int]] = field(default_factory=dict)  # lowest and highest txid, of all topics
    counts: dict[tuple[str, frozenset[int]], Counts] = field(default_factory=dict)  # of the files that are read now


@dataclass
class Measuring:
    """For one question: the days that are in the lake do not change under it."""

    rows: Rows
    asked: Asked
    names: Names
    known: Files

    def __post_init__(self) -> None:
        from pipeline.log import Wanted, days_in_lake, files

        self._archived = days_in_lake(self.rows.parent)
        self._files = files(self.rows.parent, Wanted(days_of(self.asked), self.names))

    def is_valid(self) -> bool:
        from pipeline.log import days_in_lake

        return days_in_lake(self.rows.parent) == self._archived

    def some(self, shard: int, low: int, high: int, most: int | None) -> tuple[list[Size], int]:
        """Transactions from `low` on, with `most` rows at least where there are as many below `high`; and how far."""
        width = WIDTH if most else high
        while True:
            end = min(high, low + width)
            sizes = self.between(shard, low, end)
            if end >= high or (most and sum(size.rows for size in sizes) >= most):
                return sizes, end
            width *= 4

    def between(self, shard: int, low: int, high: int) -> list[Size]:
        found: dict[int, Size] = {}
        for txid, rows, size, place in self._between(shard, low, high):
            found.setdefault(txid, Size(txid)).add(rows, size, place)
        return [found[txid] for txid in sorted(found)]

    def _between(self, shard: int, low: int, high: int) -> Iterator[tuple[int, int, int, Piece]]:
        if not self.names or low >= high:
            return
        parent = self.rows.parent
        for day, txid, rows, size in self._live(shard, low, high):
            if (shard, day) not in self._archived:
                yield txid, rows, size, Piece(parent, shard, high, day=day)
        for where, path, *_ in self._files:
            if where == shard and self._overlaps(path, low, high):
                place = Piece(parent, shard, high, path=path)
                for txid, rows, size in zip(*self._of_file(path, low, high), strict=True):
                    yield int(txid), int(rows), int(size), place

    def _live(self, shard: int, low: int, high: int) -> list[Any]:
        given = {
            "low": low, "high": high, "topics": list(self.names), "first": self.rows.first, "last": self.rows.last,
        }  # fmt: skip
        with connected(conf().shard_urls[shard], patience="1h") as connection:
            return connection.execute(statement(f"sizes_{self.rows.parent}"), given).fetchall()

    def _overlaps(self, path: str, low: int, high: int) -> bool:
        if path not in self.known.extents:
            self.known.extents[path] = extent(self._fragment(path))
        lowest, highest = self.known.extents[path]
        if highest < low:  # behind us
            for key in [key for key in self.known.counts if key[0] == path]:
                del self.known.counts[key]
        return lowest < high and highest >= low

    def _of_file(self, path: str, low: int, high: int) -> Counts:
        key = path, frozenset(self.names)
        if key not in self.known.counts:
            self.known.counts[key] = counted(self._fragment(path), self.rows, self.names)
        txids, rows, sizes = self.known.counts[key]
        first, last = np.searchsorted(txids, (low, high))
        return txids[first:last], rows[first:last], sizes[first:last]

    def _fragment(self, path: str) -> ds.ParquetFileFragment:
        system, root = open_lake(self.known.lake)
        return ds.ParquetFileFormat().make_fragment(f"{root}/{path}", system)


def extent(fragment: ds.ParquetFileFragment) -> tuple[int, int]:
    metadata = fragment.metadata
    column = metadata.schema.names.index("txid")
    groups = [metadata.row_group(number).column(column).statistics for number in range(metadata.num_row_groups)]
    return min((one.min for one in groups), default=0), max((one.max for one in groups), default=-1)


def counted(fragment: ds.ParquetFileFragment, rows: Rows, names: Names) -> Counts:
    """Of all txids, but of the topics and times that are asked for."""
    everything = condition(rows, Part(0, 0, 1 << 62, names, []))
    columns = ["txid", TIME_OF[rows.parent], *(["payload_bytes"] if rows.parent == "message" else [])]
    table: pa.Table = fragment.to_table(columns=columns, filter=everything)
    txids, places = np.unique(table["txid"].to_numpy(), return_inverse=True)
    each = np.full(table.num_rows, float(EVENT_BYTES))
    if rows.parent == "message":
        each = table["payload_bytes"].to_numpy() + float(ROW_BYTES)
    return txids, np.bincount(places, minlength=len(txids)), np.bincount(places, each, minlength=len(txids))
