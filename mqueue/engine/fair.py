"""Who waits to share a call, by the namespace that it is for.

One namespace alone is served first come, first served; of several, each gets its turn, by weight: so whoever sends a
hundred times as much waits for itself, and nobody for it.
"""

from collections import deque
from collections.abc import Collection, Mapping
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

TURN = 64  # what a namespace of weight 1 may send in a turn, while others wait
ANY = 2**62


class Load(NamedTuple, Generic[T]):
    items: list[T]
    owners: set[str]
    size: int


class _Line(Generic[T]):
    """Of one namespace."""

    __slots__ = ("credit", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[tuple[T, int]] = deque()
        self.credit = 0

    def take(self, most: int, largest: int) -> tuple[list[T], int]:
        """From its front what adds up to so much; the first alone may be more, up to the largest."""
        taken: list[T] = []
        size = 0
        while self.waiting:
            item, its_size = self.waiting[0]
            if size + its_size > most and (taken or its_size > largest):
                break
            self.waiting.popleft()
            taken.append(item)
            size += its_size
        return taken, size


class Fair(Generic[T]):
    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = weights
        self._lines: dict[str, _Line[T]] = {}  # in the order of their turns
        self.size = 0  # of all that waits

    def has_others_than(self, served: Collection[set[str]]) -> bool:
        """Whether somebody waits who is in none of these. Asked for every caller who finds a flight under way."""
        for owner in self._lines:
            for owners in served:
                if owner in owners:
                    break
            else:
                return True
        return False

    def add(self, item: T, size: int, owner: str) -> None:
        line = self._lines.get(owner)
        if line is None:
            line = self._lines[owner] = _Line()
        line.waiting.append((item, size))
        self.size += size

    def take(self, most: int, *served: set[str]) -> Load[T]:
        """What goes together next, of what waits: so much at most, or one that is more. Whoever is being served already
        comes after those who are not."""
        if len(self._lines) > 1:
            for owner in set[str]().union(*served) & self._lines.keys():
                self._lines[owner] = self._lines.pop(owner)
            return self._round(most)
        for owner, line in self._lines.items():
            taken, size = line.take(most, ANY)
            self.size -= size
            if not line.waiting:
                del self._lines[owner]
            return Load(taken, {owner}, size)
        return Load([], set(), 0)

    def _round(self, most: int) -> Load[T]:
        """A turn for each. What is larger than a turn saves up for it, and then goes alone: small ones would be kept
        waiting by it."""
        load: Load[T] = Load([], set(), 0)
        turns = len(self._lines)
        while turns > 0 or not load.items:
            owner, line = next(iter(self._lines.items()))
            first = line.waiting[0][1]
            if load.items and (first > TURN or first > most - load.size):
                break  # it goes with the next
            line.credit += TURN * self._weights.get(owner, 1)
            taken, size = line.take(min(most - load.size, line.credit), line.credit)
            line.credit -= size
            self.size -= size
            turns -= 1
            del self._lines[owner]
            if line.waiting:
                self._lines[owner] = line  # behind the others
            if taken:
                load = Load(load.items + taken, load.owners | {owner}, load.size + size)
                if first > TURN:
                    break
        return load
