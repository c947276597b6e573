"""Callers that come while a call is under way share the next one. No timer: whoever comes alone does not wait."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from mqueue.core import metrics

I = TypeVar("I")  # noqa: E741  what a caller brings
O = TypeVar("O")  # noqa: E741  what he gets


TURNS = 3  # what is in the sockets is read, what was read is parsed, and what was parsed gets here
WORTH = 40  # what has to wait for a flight beside others, for each of them: small loads cost more than they hurry


def may_fly(waiting: int, under_way: int, most: int) -> bool:
    return not under_way or (under_way < most and waiting >= WORTH * under_way)


async def boarding() -> None:
    """A few turns of the event loop, some ten microseconds where it is idle. Whoever has sent his request by now comes
    along: a third less CPU a message under load, since half as many flights carry the same callers."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


class Coalescer(Generic[I, O]):
    """`call` takes what several callers brought and answers for each in order; an error is everybody's."""

    def __init__(
        self, call: Callable[[Sequence[I]], Awaitable[Sequence[O]]], *, most: int, flights: int = 1, name: str = ""
    ) -> None:
        self._call, self._most, self._flights, self.name = call, most, flights, name
        self._waiting: deque[tuple[I, int, asyncio.Future[O]]] = deque()
        self._weight = 0
        self._boarding = False  # a flight has been called, and takes who comes before it starts
        self._under_way: set[asyncio.Task[None]] = set()
        self._sizes = metrics.BATCH_SIZE.labels(name)

    async def submit(self, item: I, weight: int = 1) -> O:
        return await self.enter(item, weight)

    def enter(self, item: I, weight: int = 1) -> "asyncio.Future[O]":
        """It stands in line when this returns."""
        future: asyncio.Future[O] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, weight, future))
        self._weight += weight
        self._start()
        return future

    def _start(self) -> None:
        if self._waiting and not self._boarding and may_fly(self._weight, len(self._under_way), self._flights):
            self._boarding = True
            task = asyncio.create_task(self._fly(), name=self.name)
            self._under_way.add(task)
            task.add_done_callback(self._landed)

    def _load(self) -> list[tuple[I, int, asyncio.Future[O]]]:
        load: list[tuple[I, int, asyncio.Future[O]]] = []
        weight = 0
        while self._waiting and (not load or weight + self._waiting[0][1] <= self._most):
            entry = self._waiting.popleft()
            self._weight -= entry[1]
            if entry[2].cancelled():
                continue  # its caller is gone, and nothing has been done for it
            load.append(entry)
            weight += entry[1]
        return load

    async def _fly(self) -> None:
        await boarding()
        load = self._load()
        self._boarding = False
        self._start()
        if not load:
            return
        self._sizes.observe(len(load))
        try:
            answers = await self._call([item for item, _, _ in load])
        except Exception as error:  # noqa: BLE001  it is told to those who asked
            for _, _, future in load:
                if not future.done():
                    future.set_exception(error)
        else:
            for (_, _, future), answer in zip(load, answers, strict=True):
                if not future.done():
                    future.set_result(answer)

    def _landed(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        self._start()
