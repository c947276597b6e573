"""Tokens for rates and quotas, at the price of few calls: what many requests need is asked for together, and above a
hundred a second a little more, which then serves without a call. Unused, it is worth nothing after a second."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mqueue.core.gcra import Ask, Bucket, OwnShare, Refusal
from mqueue.engine.coalesce import Coalescer
from mqueue.hot.limits import Limits

LASTS_S, BELIEVED_S = 1.0, 0.1
MOST, REMEMBERED = 500, 10_000
Asks = Sequence[Ask]


class Empty(NamedTuple):
    """What was refused last, until when it would be, and until when we believe that: others may have given back."""

    bucket: Bucket
    tokens: int
    until: float
    believed_until: float


@dataclass(slots=True)
class Hand:
    """Tokens of one bucket that were taken ahead."""

    tokens: int
    until: float


class Buckets:
    def __init__(self, limits: Limits, processes: int) -> None:
        self._limits, self._processes = limits, processes
        self._hands: dict[str, Hand] = {}
        self._empty: dict[str, Empty] = {}
        self._alone = OwnShare()
        self._calls: Coalescer[Asks, list[int] | Refusal] = Coalescer(self._call, most=MOST, name="take tokens")

    async def take(self, asks: Asks) -> list[int] | Refusal:
        """What each ask gets, or which of them refuses: then nothing is taken at all."""
        if self._take_from_hand(asks):
            return [ask.wanted for ask in asks]
        if self._empty and (refusal := self._refused_again(asks)):
            return refusal
        answer = await self._calls.submit(asks)
        if isinstance(answer, Refusal):
            self._note_empty(asks[answer.ask], answer.wait_us)
            return answer
        for ask, tokens in zip(asks, answer, strict=True):
            if tokens > ask.wanted:
                self._keep(ask.name, tokens - ask.wanted)
        return [min(ask.wanted, tokens) for ask, tokens in zip(asks, answer, strict=True)]

    async def give_back(self, asks: Asks) -> None:
        """What was taken for nothing."""
        for ask in asks:
            self._empty.pop(ask.name, None)
        if back := [Ask(ask.name, ask.bucket, -ask.wanted, 0) for ask in asks if ask.wanted > 0]:
            await self._calls.submit(back)

    def _take_from_hand(self, asks: Asks) -> bool:
        now = time.monotonic()
        hands = [self._hands.get(ask.name) for ask in asks]
        for ask, hand in zip(asks, hands, strict=True):
            if hand is None or hand.tokens < ask.wanted or hand.until <= now:
                return False
        for ask, hand in zip(asks, hands, strict=True):
            if hand:
                hand.tokens -= ask.wanted
        return True

    def _refused_again(self, asks: Asks) -> Refusal | None:
        """Without a call: a flood that is refused shall cost nobody anything."""
        now, worst = time.monotonic(), None
        for position, ask in enumerate(asks):
            empty = self._empty.get(ask.name)
            if empty and empty.bucket == ask.bucket and empty.tokens <= ask.least:
                wait_us = 1e6 * (empty.until - now) + (ask.least - empty.tokens) * ask.bucket.each_us
                if empty.believed_until > now and (worst is None or wait_us > worst.wait_us):
                    worst = Refusal(math.ceil(wait_us), position)
        return worst

    def _note_empty(self, ask: Ask, wait_us: int) -> None:
        now = time.monotonic()
        if len(self._empty) >= REMEMBERED:
            self._empty = {of: empty for of, empty in self._empty.items() if empty.believed_until > now}
        self._empty[ask.name] = Empty(ask.bucket, ask.least, now + wait_us / 1e6, now + min(wait_us / 1e6, BELIEVED_S))

    def _keep(self, name: str, tokens: int) -> None:
        now = time.monotonic()
        if len(self._hands) >= REMEMBERED:
            self._hands = {of: hand for of, hand in self._hands.items() if hand.until > now}
        self._hands[name] = Hand(tokens, now + LASTS_S)

    async def _call(self, requests: Sequence[Asks]) -> Sequence[list[int] | Refusal]:
        asked: set[str] = set()
        debts = self._alone.debts()
        sent = [[(ask, self._ahead(ask, asked)) for ask in asks] for asks in requests]
        answers = await self._limits.take([[(debt, 0) for debt in debts], *sent])
        if answers is None:
            processes, now = max(self._processes, self._limits.processes), time.monotonic() * 1e6
            return [self._alone.take(asks, processes, now) for asks in requests]
        self._alone.clear()
        return answers[1:]

    def _ahead(self, ask: Ask, asked: set[str]) -> int:
        """Only one of those that ask together takes more than it needs, and none while there is something in hand."""
        hand = self._hands.get(ask.name)
        if ask.name in asked or ask.wanted < 0 or (hand and hand.tokens and hand.until > time.monotonic()):
            return 0
        asked.add(ask.name)
        return ask.bucket.ahead
