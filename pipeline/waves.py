"""Pieces of the log are cut in waves, the next one while the spans of this one are sent.

So the first message goes out early, and what lies on the shelf is two waves, where pieces follow each other in time. A
span is whole when no piece that is still to be cut begins before its end.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pyarrow as pa

from pipeline.errors import LogChanged
from pipeline.shelf import Shelf

FIRST, LARGEST = 2, 16  # pieces of a wave; each has twice as many as the one before


class Place(NamedTuple):
    """Where on the shelf a part of a span is."""

    path: str
    number: int
    span: int


def waves(begins: Mapping[int, int]) -> Iterator[list[int]]:
    """Pieces by the time when they begin."""
    left, size = sorted(begins, key=lambda piece: (begins[piece], piece)), FIRST
    while left:
        yield left[:size]
        left, size = left[size:], min(LARGEST, 2 * size)


def spans(
    begins: Mapping[int, int], bounds: list[int], cut: Callable[[list[int]], Iterable[Place]]
) -> Iterator[list[Place]]:
    """The parts of each span, one span after the other. `begins` are the times of pieces, `bounds` those of all spans
    but the first. A part of a span that is out already is an error: nobody would send it."""
    found: dict[int, list[Place]] = defaultdict(list)
    done, coming = 0, list(waves(begins))
    with ThreadPoolExecutor(1, "cut") as ahead:
        cutting = ahead.submit(cut, coming[0]) if coming else None
        for number in range(len(coming)):
            assert cutting
            parts = cutting.result()
            is_last = number + 1 == len(coming)
            cutting = None if is_last else ahead.submit(cut, coming[number + 1])
            for part in parts:
                if part.span < done:
                    raise LogChanged
                found[part.span].append(part)
            whole = len(bounds) + 1 if is_last else bisect_right(bounds, begins[coming[number + 1][0]])
            for span in range(done, whole):
                yield found.pop(span, [])
            done = max(done, whole)


class Taken:
    """Parts of spans, taken from the shelf; a file is gone when all of its parts were."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._left: Counter[str] = Counter()

    def laid(self, places: Iterable[Place]) -> None:
        self._left.update(place.path for place in places)

    def take(self, places: Iterable[Place]) -> list[pa.Table]:
        return [self._take(place) for place in places]

    def _take(self, place: Place) -> pa.Table:
        table = self._shelf.get(place.path, place.number)
        self._left[place.path] -= 1
        if not self._left[place.path]:
            self._shelf.drop(place.path)
        return table
