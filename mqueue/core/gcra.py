"""Rates as buckets of tokens, each of which is one number: the time at which it is full again (GCRA).

Pure: times are microseconds of whatever clock the caller has. `mqueue/hot/scripts/take.lua` reckons as this does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

SECOND_US, MINUTE_US = 1e6, 60e6
BURST_US = MINUTE_US / 10  # so any minute admits at most 1.1 times its quota
AHEAD_US = SECOND_US / 100
SLACK_US = 0.5  # what sums of doubles may lose


@dataclass(frozen=True, slots=True)
class Bucket:
    each_us: float  # until there is one token more
    full_us: float  # until an empty one is full

    @property
    def holds(self) -> int:
        return int((self.full_us + SLACK_US) / self.each_us)

    @property
    def ahead(self) -> int:
        """Tokens that a process may take before it needs them: a hundredth of a second's, none below 100 a second."""
        return int(AHEAD_US / self.each_us)

    def room(self, full_at: float, now: float) -> int:
        """Tokens in it, if it is full at a time."""
        return int(max(0.0, now + self.full_us - max(full_at, now) + SLACK_US) / self.each_us)

    def wait_us(self, full_at: float, now: float, tokens: int) -> float:
        """Until there are so many."""
        return max(full_at, now) + tokens * self.each_us - now - self.full_us


def per_minute(quota: int) -> Bucket:
    """A tenth may come at once, and always one."""
    each_us = MINUTE_US / quota
    return Bucket(each_us, max(BURST_US, each_us))


def per_second(refill: float, capacity: float) -> Bucket:
    each_us = SECOND_US / refill
    return Bucket(each_us, max(1.0, capacity) * each_us)


FORCED = -1  # the least of an ask for what was taken already, without leave


class Ask(NamedTuple):
    """Tokens of one bucket: as many as are wanted, or at least so many, or none. Below zero: given back."""

    name: str
    bucket: Bucket
    wanted: int
    least: int


class Refusal(NamedTuple):
    wait_us: int
    ask: int  # which of them, by position


class OwnShare:
    """The buckets of one process alone, while nobody knows of the others': each gets its part of the rate, and begins
    empty, since the others may have taken what was in it."""

    MOST = 10_000

    def __init__(self) -> None:
        self._full_at: dict[str, float] = {}
        self._spent: dict[str, tuple[Bucket, int]] = {}

    def clear(self) -> None:
        self._full_at.clear()
        self._spent.clear()

    def debts(self) -> list[Ask]:
        """What was let through alone, to be told to the others when they can be heard again."""
        return [Ask(name, bucket, tokens, FORCED) for name, (bucket, tokens) in self._spent.items() if tokens > 0]

    def take(self, asks: Sequence[Ask], processes: int, now: float) -> list[int] | Refusal:
        """What each ask gets, or which of them has to wait. One that is larger than our part of its bucket is let
        through when that is full, and paid for afterwards."""
        granted, worst = [], Refusal(0, 0)
        for position, ask in enumerate(asks):
            part = _part(ask.bucket, processes)
            full_at = self._full_at.get(ask.name, now + part.full_us)
            least = min(ask.least, part.holds)
            wait_us = part.wait_us(full_at, now, least)
            if wait_us > SLACK_US and ask.wanted > 0:
                worst = max(worst, Refusal(int(wait_us) + 1, position))
            granted.append(min(ask.wanted, max(ask.least, part.room(full_at, now))))
        if worst.wait_us:
            self._note(asks, [0] * len(asks), processes, now)
            return worst
        self._note(asks, granted, processes, now)
        return granted

    def _note(self, asks: Sequence[Ask], granted: Sequence[int], processes: int, now: float) -> None:
        if len(self._full_at) >= self.MOST:
            self._full_at = {name: at for name, at in self._full_at.items() if at > now}
            self._spent = {name: self._spent[name] for name in self._full_at}
        for ask, tokens in zip(asks, granted, strict=True):
            part = _part(ask.bucket, processes)
            full_at = self._full_at.get(ask.name, now + part.full_us)
            self._full_at[ask.name] = max(full_at, now) + tokens * part.each_us
            self._spent[ask.name] = ask.bucket, tokens + self._spent.get(ask.name, (ask.bucket, 0))[1]


def _part(whole: Bucket, processes: int) -> Bucket:
    each_us = whole.each_us * processes
    return Bucket(each_us, max(whole.full_us, each_us))
