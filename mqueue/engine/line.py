"""The consumers of one topic that wait in this process. They share claims, first come, first served."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mqueue.core import metrics
from mqueue.core.messages import Delivered, Dequeue
from mqueue.engine.coalesce import boarding, may_fly

MOST, MOST_CALLERS = 1_000, 128  # messages and consumers of one claim
FLIGHTS = 4
MORE_LEFT, MOST_TRIES = -1, 10
LOOK_EVERY_S = 1.0  # for an arrival whose wake-up was lost
LOOK_ALONE_EVERY_S = 0.1  # while nobody can wake us
GROUPS = metrics.BATCH_SIZE.labels("line")


@dataclass(slots=True, eq=False)
class Waiter:
    wanted: Dequeue
    consumer: str
    deadline: float
    answer: "asyncio.Future[list[Delivered]]"
    eager_since: float = 0.0
    tries: int = 0


class Source(Protocol):
    async def claim(self, waiters: list[Waiter]) -> tuple[list[list[Delivered]], bool]:
        """For each waiter, in order, what it gets; and whether nothing more is due."""

    async def next_due_in(self) -> float | None:
        """Seconds until something comes due."""

    async def give_back(self, found: list[Delivered]) -> None:
        """Nobody is there any more to take them."""


class Ear(Protocol):
    @property
    def hears_arrivals(self) -> bool:
        """Whether we are woken when something arrives on another process."""


class Line:
    """At rest it costs nothing: five thousand waiting polls are five thousand futures and one timer."""

    def __init__(
        self, source: Source, ear: Ear, forget: "Callable[[Line], None]", handed_out: Callable[[int], None]
    ) -> None:
        self._source, self._ear, self._forget, self._handed_out = source, ear, forget, handed_out
        self._loop = asyncio.get_running_loop()
        self._eager: OrderedDict[Waiter, None] = OrderedDict()  # untried since something may have arrived
        self._resting: OrderedDict[Waiter, None] = OrderedDict()
        self._claims: set[asyncio.Task[None]] = set()
        self._giving: set[asyncio.Task[None]] = set()
        self._timer: asyncio.Handle | None = None  # uvloop gives no TimerHandle for what is due at once
        self._rings_at = 0.0
        self._wakes = 0
        self._boarding = False  # a claim has been called, and takes who comes before it starts

    async def take(self, wanted: Dequeue, consumer: str) -> list[Delivered]:
        deadline = time.monotonic() + wanted.wait_ms / 1000
        waiter = Waiter(wanted, consumer, deadline, self._loop.create_future())
        self._hurry(waiter)
        try:
            if wanted.wait_ms:
                done, _ = await asyncio.wait([waiter.answer], timeout=wanted.wait_ms / 1000)
                if not done and waiter in self._resting:
                    return []
            return await waiter.answer  # if it is being served at its deadline, what is found for it is its own
        except asyncio.CancelledError:
            if waiter.answer.done() and not waiter.answer.cancelled() and not waiter.answer.exception():
                self._give_back(waiter.answer.result())
            raise
        finally:
            self._leave(waiter)

    def wake(self, in_s: float = 0.0) -> None:
        """Something has arrived, or will be due in so many seconds."""
        if in_s > 0:
            self._ring_in(in_s)
            return
        self._wakes += 1
        while self._resting:
            self._hurry(self._resting.popitem(last=False)[0])

    def _hurry(self, waiter: Waiter) -> None:
        waiter.eager_since = time.monotonic()
        self._eager[waiter] = None
        self._start()

    def _leave(self, waiter: Waiter) -> None:
        waiter.answer.cancel()
        self._eager.pop(waiter, None)
        self._resting.pop(waiter, None)
        self._close_if_empty()

    def _close_if_empty(self) -> None:
        if self._eager or self._resting or self._claims:
            return
        if self._timer:
            self._timer.cancel()
        self._forget(self)

    def _start(self) -> None:
        if self._eager and not self._boarding and may_fly(len(self._eager), len(self._claims), FLIGHTS):
            self._boarding = True
            claim = asyncio.create_task(self._serve(), name="serve a topic")
            self._claims.add(claim)
            claim.add_done_callback(self._served)

    def _served(self, claim: "asyncio.Task[None]") -> None:
        self._claims.discard(claim)
        self._start()
        self._close_if_empty()

    async def _serve(self) -> None:
        await boarding()
        group = self._next_group()
        self._boarding = False
        self._start()
        if not group:
            return
        began, wakes = time.monotonic(), self._wakes
        GROUPS.observe(len(group))
        try:
            found, nothing_left = await self._source.claim(group)
        except Exception as error:  # noqa: BLE001  it is told to those who asked
            for waiter in group:
                if not waiter.answer.done():
                    waiter.answer.set_exception(error)
            if self._resting:
                self._ring_in(LOOK_ALONE_EVERY_S)
            return
        self._distribute(group, found, wakes if nothing_left else MORE_LEFT)
        if nothing_left:
            self._nothing_left(began, wakes)
        if self._resting and not self._eager:
            await self._set_timer()

    def _next_group(self) -> list[Waiter]:
        group: list[Waiter] = []
        total = 0
        while self._eager and len(group) < MOST_CALLERS:
            waiter = next(iter(self._eager))
            if group and total + waiter.wanted.limit > MOST:
                break
            self._eager.pop(waiter)
            group.append(waiter)
            total += waiter.wanted.limit
        return group

    def _distribute(self, group: list[Waiter], found: list[list[Delivered]], wakes: int) -> None:
        unwanted: list[Delivered] = []
        took: list[float] = []
        handed_out, now = 0, time.monotonic()
        for waiter, messages in zip(group, found, strict=True):
            if waiter.answer.done():
                unwanted += messages
            elif messages:
                took.append(now - waiter.eager_since)
                handed_out += len(messages)
                waiter.answer.set_result(messages)
            else:
                self._rest(waiter, wakes)
        if took:
            metrics.DEQUEUE_SECONDS.observe_each(took)
            self._handed_out(handed_out)
        self._give_back(unwanted)

    def _give_back(self, found: list[Delivered]) -> None:
        """Whoever asked for them is gone."""
        if found:
            task = asyncio.create_task(self._source.give_back(found), name="give back")
            self._giving.add(task)
            task.add_done_callback(self._giving.discard)

    def _nothing_left(self, at: float, wakes: int) -> None:
        """Whoever had come by then need not be tried."""
        while wakes == self._wakes and self._eager and next(iter(self._eager)).eager_since < at:
            self._rest(self._eager.popitem(last=False)[0], wakes)

    def _rest(self, waiter: Waiter, wakes: int) -> None:
        """Unless somebody has called since it was tried, or more was due than its claim could hold."""
        waiter.tries += 1
        if wakes == MORE_LEFT and waiter.tries < MOST_TRIES:
            self._hurry(waiter)
            return
        if time.monotonic() >= waiter.deadline:
            waiter.answer.set_result([])
        elif wakes != self._wakes:
            self._hurry(waiter)
        else:
            self._resting[waiter] = None

    async def _set_timer(self) -> None:
        try:
            next_due = await self._source.next_due_in()
        except Exception:  # noqa: BLE001  the database is away: the next look will tell those who wait
            next_due = None
        look = LOOK_EVERY_S if self._ear.hears_arrivals else LOOK_ALONE_EVERY_S
        self._ring_in(look if next_due is None else max(0.001, min(next_due, look)))

    def _ring_in(self, seconds: float) -> None:
        at = time.monotonic() + seconds
        if self._timer and self._rings_at <= at:
            return  # it rings before, and is set anew then
        if self._timer:
            self._timer.cancel()
        self._rings_at = at
        self._timer = asyncio.get_running_loop().call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.wake()
