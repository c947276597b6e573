"""Callers that come while a call is under way share the next one. No timer: whoever comes alone does not wait."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, TypeVar

from mqueue.core import metrics
from mqueue.engine.fair import Fair

I = TypeVar("I")  # noqa: E741  what a caller brings
O = TypeVar("O")  # noqa: E741  what he gets


TURNS = 3  # what is in the sockets is read, what was read is parsed, and what was parsed gets here
WORTH = 40  # what has to wait for a flight beside others, for each of them: small loads cost more than they hurry
LONG = 250  # rows: a flight that carries so many takes milliseconds
AT_ONCE = 1  # turns where the callers come from flights themselves, and arrive together
ALIKE: Mapping[str, int] = MappingProxyType({})


def may_fly(waiting: int, under_way: int, most: int) -> bool:
    return not under_way or (under_way < most and waiting >= WORTH * under_way)


async def boarding(turns: int = TURNS) -> None:
    """A few turns of the event loop, some ten microseconds where it is idle. Whoever has sent his request by now comes
    along: a third less CPU a message under load, since half as many flights carry the same callers."""
    for _ in range(turns):
        await asyncio.sleep(0)


class Coalescer(Generic[I, O]):
    """`call` takes what several callers brought and answers for each in order; an error is everybody's. Callers for
    different namespaces take turns."""

    def __init__(
        self,
        call: Callable[[Sequence[I]], Awaitable[Sequence[O]]],
        *,
        most: int,
        flights: int = 1,
        name: str = "",
        weights: Mapping[str, int] = ALIKE,
        turns: int = TURNS,
    ) -> None:
        self._call, self._most, self._flights, self.name, self._turns = call, most, flights, name, turns
        self._waiting: Fair[tuple[I, asyncio.Future[O]]] = Fair(weights)
        self._boarding = False  # a flight has been called, and takes who comes before it starts
        self._under_way: set[asyncio.Task[None]] = set()
        self._of_few: dict[asyncio.Task[None] | None, set[str]] = {}  # flights of one owner, and long ones: for whom
        self._sizes = metrics.BATCH_SIZE.labels(name)
        self._loop: asyncio.AbstractEventLoop | None = None  # it is asked for the running process each time

    async def submit(self, item: I, size: int = 1, owner: str = "") -> O:
        return await self.enter(item, size, owner)

    def enter(self, item: I, size: int = 1, owner: str = "") -> "asyncio.Future[O]":
        """It stands in line when this returns."""
        loop = self._loop = self._loop or asyncio.get_running_loop()
        future: asyncio.Future[O] = loop.create_future()
        self._waiting.add((item, future), size or 1, owner)
        self._start()
        return future

    def _start(self) -> None:
        size = self._waiting.size
        if size and not self._boarding and (may_fly(size, len(self._under_way), self._flights) or self._is_held_up()):
            self._boarding = True
            task = asyncio.create_task(self._fly(), name=self.name)
            self._under_way.add(task)
            task.add_done_callback(self._landed)

    def _is_held_up(self) -> bool:
        """Somebody waits who has no part in those flights that are under way: there is one more for him."""
        if not self._of_few or len(self._under_way) > self._flights:
            return False
        return self._waiting.has_others_than(self._of_few.values())

    async def _fly(self) -> None:
        await boarding(self._turns)
        taken = self._waiting.take(self._most, *self._of_few.values())
        load = [entry for entry in taken.items if not entry[1].cancelled()]  # its caller is gone, and nothing was done
        if taken.size >= LONG or len(taken.owners) == 1:
            self._of_few[asyncio.current_task()] = taken.owners
        self._boarding = False
        self._start()
        if not load:
            return
        self._sizes.observe(len(load))
        try:
            answers = await self._call([item for item, _ in load])
        except Exception as error:  # noqa: BLE001  it is told to those who asked
            for _, future in load:
                if not future.done():
                    future.set_exception(error)
        else:
            for (_, future), answer in zip(load, answers, strict=True):
                if not future.done():
                    future.set_result(answer)

    def _landed(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        self._of_few.pop(task, None)
        self._start()
