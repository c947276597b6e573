"""What one topic may hand out now: by its own rate, and by how many leases its namespace may hold at a time."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mqueue.core import metrics
from mqueue.core.errors import QuotaExceeded, RateLimited
from mqueue.core.gcra import Ask, Refusal, per_second
from mqueue.engine.buckets import Buckets
from mqueue.engine.levels import LEASED, Levels, Room
from mqueue.engine.line import Waiter
from tenants.registry import Name
from tenants.settings_cache import SettingsCache
from tenants.snapshot import Rate, TopicSettings

LOOK_AGAIN_S = 0.1  # for leases that have ended, on whichever process
FULL_RETRY_S = 1.0  # nobody knows when one ends


class Wanting(Protocol):
    """What a consumer may still get in this claim, and what it has got."""

    left: int

    @property
    def rows(self) -> Sequence[object]: ...


@dataclass(slots=True)
class Permit:
    messages: int
    tokens: Ask | None = None
    room: Room | None = None
    refusal: RateLimited | None = None  # why it is not more


class Throttle:
    def __init__(self, name: Name, topic: int, settings: SettingsCache, buckets: Buckets, levels: Levels) -> None:
        self._name, self._bucket_name = name, f"rate:{topic}"
        self._settings, self._buckets, self._levels = settings, buckets, levels
        self._rate: Rate | None = None
        self._empty_until = 0.0
        self._is_full = False  # of leases, as far as was seen last

    def is_off(self, settings: TopicSettings) -> bool:
        return settings.rate is None and self._most_leases() is None

    def looks_again_in(self) -> float:
        """Seconds until it is worth a look; 0: no limit was met."""
        return max(self._empty_until - time.monotonic(), LOOK_AGAIN_S if self._is_full else 0.0)

    async def serve(
        self,
        waiters: Sequence[Waiter],
        wants: Sequence[Wanting],
        settings: TopicSettings,
        claim: Callable[[], Awaitable[bool]],
    ) -> bool:
        """Claim as much as is allowed, first come, first served. Whoever does not wait is told why it got nothing; the
        others rest as if nothing were left, until it is worth a look."""
        wanted = sum(want.left for want in wants)
        permit = await self._permit(wanted, settings.rate)
        left = permit.messages
        for want in wants:
            want.left = min(want.left, left)
            left -= want.left
        try:
            nothing_left = await claim() if permit.messages else False
        except BaseException:
            await self._settle(permit, 0, permit.messages)  # perhaps they are leased: a count will tell
            raise
        leased = sum(len(want.rows) for want in wants)
        await self._settle(permit, leased, leased)
        if nothing_left or permit.refusal is None:
            return nothing_left
        self._refuse(permit.refusal, [waiter for waiter, want in zip(waiters, wants, strict=True) if not want.rows])
        return True

    def _most_leases(self) -> int | None:
        limited = self._settings.limited
        quotas = limited.get(self._name[0]) if limited else None
        return quotas.max_in_flight if quotas else None

    async def _permit(self, wanted: int, rate: Rate | None) -> Permit:
        permit = Permit(wanted)
        self._is_full = False
        if (most := self._most_leases()) is not None:
            permit.room = await self._levels.reserve(LEASED, self._name[0], wanted, 1, most)
            permit.messages = permit.room.granted if permit.room else 0
            if permit.messages < wanted:
                self._is_full = True
                detail = f"max_in_flight of the namespace {self._name[0]} is used up"
                permit.refusal = QuotaExceeded(detail, retry_after_s=FULL_RETRY_S)
        if rate is not self._rate:
            self._rate, self._empty_until = rate, 0.0
        if rate is not None and permit.messages:
            await self._pay(permit, rate)
        return permit

    async def _pay(self, permit: Permit, rate: Rate) -> None:
        """Take tokens for what is permitted so far, or for as much of it as there are."""
        now, wanted = time.monotonic(), permit.messages
        permit.messages = 0
        if self._empty_until <= now:
            bucket = per_second(rate.refill_per_s, rate.capacity)
            answer = await self._buckets.take([Ask(self._bucket_name, bucket, wanted, 1)])
            if isinstance(answer, Refusal):
                self._empty_until = time.monotonic() + answer.wait_us / 1e6
            else:
                permit.messages = answer[0]
                permit.tokens = Ask(self._bucket_name, bucket, permit.messages, 1)
                self._empty_until = now + bucket.each_us / 1e6 if permit.messages < wanted else 0.0
        if permit.messages < wanted:
            wait_s = max(0.0, self._empty_until - time.monotonic())
            permit.refusal = RateLimited(f"The rate of the topic {self._name[1]} is used up", retry_after_s=wait_s)

    async def _settle(self, permit: Permit, handed_out: int, leased: int) -> None:
        if permit.tokens and handed_out < permit.messages:
            await self._buckets.give_back([permit.tokens._replace(wanted=permit.messages - handed_out)])
            self._empty_until = 0.0
        if permit.room:
            await self._levels.settle(permit.room, leased)

    def _refuse(self, refusal: RateLimited, waiters: Sequence[Waiter]) -> None:
        for waiter in waiters:
            if not waiter.wanted.wait_ms and not waiter.answer.done():
                limit = "max_in_flight" if isinstance(refusal, QuotaExceeded) else "rate"
                metrics.refused(limit, self._name[0])
                waiter.answer.set_exception(refusal)
