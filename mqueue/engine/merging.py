"""One page from the pages of several shards, each in order."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, takewhile
from typing import Any

from shards.cluster import Cluster
from shards.pools import Database


def merged(
    cluster: Cluster,
    shards: Sequence[Database],
    pages: Sequence[list[Any]],
    limit: int,
    slot_of_row: Callable[[Any], int],
) -> Iterable[Any]:
    """While slots move, two shards have their rows, and only the one that owns them is believed. Behind the end of a
    full page, some of its shard's rows may be missing once others were left out, so the page ends there."""
    if len(shards) == 1:
        return islice(pages[0], limit)
    owned = [
        [row for row in page if cluster.reader_of_slot(slot_of_row(row)) is shard]
        for shard, page in zip(shards, pages, strict=True)
    ]
    ends = [
        page[-1][0] for page, left in zip(pages, owned, strict=True) if len(page) == limit and len(left) < len(page)
    ]
    rows: Iterable[Any] = heapq.merge(*owned, key=_place)
    if ends:
        rows = takewhile(lambda row: row[0] <= min(ends), rows)
    return islice(rows, limit)


def _place(row: Any) -> Any:
    """Rows begin with what they are sorted by."""
    return row[0]
