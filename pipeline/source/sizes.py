"""How much each transaction has written: what a stream cuts its batches, and their parts, by.

It is the same wherever the rows lie by now. So a batch that is done again has the same parts with the same rows, though
its days may have moved into the lake meanwhile.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.pieces import Piece

PART_BYTES = 32 << 20


@dataclass(slots=True)
class Size:
    """Of what one transaction has written, in all places."""

    txid: int
    rows: int = 0
    bytes: int = 0
    places: set[Piece] = field(default_factory=set)

    def add(self, rows: int, size: int, place: Piece) -> None:
        self.rows += rows
        self.bytes += size
        self.places.add(place)


@dataclass(frozen=True, slots=True)
class Cut:
    """Transactions from `low` on and below `high`, and where they lie."""

    low: int
    high: int
    places: frozenset[Piece]


def admit(found: Sequence[Sequence[Size]], most: int) -> list[int | None]:
    """For each shard the txid that a batch of `most` rows ends before; None where it takes all. Shards get shares by
    what they have, and at least one transaction each: what is larger than a share comes as a whole."""
    totals = [sum(size.rows for size in sizes) for sizes in found]
    everything = max(1, sum(totals))
    return [_end(sizes, most * total // everything) for sizes, total in zip(found, totals, strict=True)]


def _end(sizes: Sequence[Size], share: int) -> int | None:
    taken = 0
    for size in sizes:
        if taken and taken + size.rows > share:
            return size.txid
        taken += size.rows
    return None


def cut(sizes: Sequence[Size], most_rows: int, most_bytes: int = PART_BYTES) -> Iterator[Cut]:
    """In parts of so many rows and bytes, but never within a transaction."""
    part: list[Size] = []
    rows = weight = 0
    for size in sizes:
        if part and (rows + size.rows > most_rows or weight + size.bytes > most_bytes):
            yield _joined(part)
            part, rows, weight = [], 0, 0
        part.append(size)
        rows, weight = rows + size.rows, weight + size.bytes
    if part:
        yield _joined(part)


def _joined(part: list[Size]) -> Cut:
    return Cut(part[0].txid, part[-1].txid + 1, frozenset().union(*(size.places for size in part)))
