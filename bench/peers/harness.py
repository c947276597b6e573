"""python -m bench.peers.harness: one work of one peer, in the peers' environment. Speaks as `bench.load` does."""

import asyncio
import contextlib
import importlib
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvloop

from bench.peers.peer import Peer, Spec
from bench.speak import begin, obey

SINGLE_CALLERS, BATCH_CALLERS, BATCH = 64, 4, 1000


class Meter:
    """Counts what is done, between the end of the warm-up and the end of the work."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self.done = 0
        self.first = asyncio.Event()

    def count(self, messages: int) -> None:
        """So many more."""
        self.done += messages
        self.first.set()

    async def measure(self, limit: int | None = None) -> dict[str, float]:
        """The rate over the measured seconds, or until `limit` messages are done."""
        await self.first.wait()
        await asyncio.sleep(self._spec["warm"])
        if self._spec["leads"]:
            begin()
        began, before = time.perf_counter(), self.done
        while time.perf_counter() - began < self._spec["seconds"] and (limit is None or self.done < limit):
            await asyncio.sleep(0.01)
        took, done = time.perf_counter() - began, self.done - before
        return {"seconds": took, "messages": done, "rate": done / took}


async def enqueue(peer: Peer, spec: Spec) -> dict[str, float]:
    """Callers that enqueue as fast as they are answered."""
    meter, batch = Meter(spec), BATCH if spec["work"] == "batch" else 0

    async def call() -> None:
        while True:
            await (peer.enqueue_batch(batch) if batch else peer.enqueue())
            meter.count(batch or 1)

    callers = (BATCH_CALLERS if batch else SINGLE_CALLERS) // spec["processes"]
    return await while_at_work([call] * callers, meter.measure())


async def fill(peer: Peer, spec: Spec) -> dict[str, float]:
    """Put in what will be consumed."""
    left = spec["messages"]

    async def call() -> None:
        nonlocal left
        while left > 0:
            left -= BATCH if peer.batches else 1
            await (peer.enqueue_batch(BATCH) if peer.batches else peer.enqueue())

    begin()
    async with asyncio.TaskGroup() as group:
        for _ in range(BATCH_CALLERS if peer.batches else SINGLE_CALLERS):
            group.create_task(call())
    return {"messages": spec["messages"]}


async def consume(peer: Peer, spec: Spec) -> dict[str, float]:
    """Its workers, at their best; it ends early where nothing is left."""
    meter = Meter(spec)
    return await while_at_work(
        [lambda: peer.consume(meter.count)] * peer.consumers, meter.measure(spec["messages"] // spec["processes"])
    )


async def while_at_work(
    works: list[Callable[[], Awaitable[None]]], measuring: Awaitable[dict[str, float]]
) -> dict[str, float]:
    """Measure while they work; a work that fails fails the measurement."""
    tasks = [asyncio.ensure_future(work()) for work in works]
    measured = asyncio.ensure_future(measuring)
    done, _ = await asyncio.wait([*tasks, measured], return_when=asyncio.FIRST_COMPLETED)
    for task in done - {measured}:
        task.result()
        raise RuntimeError("the workers stopped by themselves")
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=3)
    return await measured


WORKS: dict[str, Callable[[Peer, Spec], Awaitable[dict[str, float]]]] = {
    "single": enqueue,
    "batch": enqueue,
    "fill": fill,
    "consume": consume,
}


async def run(spec: Spec) -> dict[str, Any]:
    """One work of one peer."""
    peer: Peer = importlib.import_module(f"bench.peers.{spec['peer']}").PEER(spec)
    if spec["work"] == "prepare":
        begin()
        await peer.prepare()
        return about(peer)
    await peer.open()
    try:
        return dict(await WORKS[spec["work"]](peer, spec))
    finally:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(peer.close(), 5)


def about(peer: Peer) -> dict[str, Any]:
    """What there is to say about it."""
    said: dict[str, Any] = {"version": peer.version(), "settings": peer.settings, "less": peer.less}
    return said | {"batches": peer.batches, "at_once": peer.at_once, "quickest": peer.quickest}


@contextlib.contextmanager
def siblings(spec: Spec) -> Iterator[list[int]]:
    """As many more processes at the same work; the pipes on which they tell their results."""
    pipes = []
    for _ in range(spec["processes"] - 1):
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.write(writing, json.dumps(uvloop.run(run(spec | {"leads": False}))).encode())
            os._exit(0)
        os.close(writing)
        pipes.append(reading)
    yield pipes


def main(spec: Spec) -> dict[str, Any]:
    """The sum of all processes."""
    with siblings(spec) as pipes:
        result = uvloop.run(run(spec | {"leads": True}))
        for pipe in pipes:
            other = json.loads(os.fdopen(pipe).read())
            result["rate"] += other["rate"]
            result["messages"] += other["messages"]
    return result


if __name__ == "__main__":
    obey(main)
    os._exit(0)  # some leave threads behind
