"""python -m bench.load: a closed loop of requests, in a process of its own.

Reads what to do as JSON from its input, writes a line `begin` once it is warm and one of JSON at its end. The driver
takes its own readings at these lines.
"""

import asyncio
import time
from functools import partial
from typing import Any

import uvloop

from bench.client import Requests, Script, Scripted
from bench.scripts import SCRIPTS, Tally
from bench.speak import begin, obey

SHORT_S = 0.002  # timers are not finer


async def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Messages that were settled (or enqueued) within the measured seconds, or until the scripts have ended."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    tally = Tally(spec)
    connections = await connect(spec["ports"], SCRIPTS[spec["script"]](Requests(spec["token"]), tally), over)
    tally.goes = [connection.go for connection in connections]
    for connection in connections:
        connection.go()
    if spec["warm"]:
        await pause(over, spec["warm"])
    begin()
    result = await (count(tally, over, spec["seconds"]) if spec["seconds"] else finish(tally, over))
    for connection in connections:
        connection.close()
    return result


async def finish(tally: Tally, over: "asyncio.Future[None]") -> dict[str, Any]:
    """Wait until every script has ended."""
    began = time.perf_counter()
    await over
    took = time.perf_counter() - began
    return {"seconds": took, "messages": tally.done, "rate": tally.done / took}


async def count(tally: Tally, over: "asyncio.Future[None]", seconds: float) -> dict[str, Any]:
    """The rate, and the count of each second for those who look at how it changes."""
    began, before, each = time.perf_counter(), tally.done, []
    while (left := began + seconds - time.perf_counter()) > SHORT_S:
        last = tally.done
        await pause(over, min(1.0, left))
        each.append(tally.done - last)
    took, done = time.perf_counter() - began, tally.done - before
    return {"seconds": took, "messages": done, "rate": done / took, "each_second": each}


async def connect(ports: list[int], scripts: list[Script], over: "asyncio.Future[None]") -> list[Scripted]:
    """One connection a script, spread over the ports. `over` is set by the last that ends, or the first that fails."""
    left = len(scripts)

    def ended(error: Exception | None) -> None:
        nonlocal left
        left -= 1
        if error and not over.done():
            over.set_exception(error)
        elif not left and not over.done():
            over.set_result(None)

    loop, found = asyncio.get_running_loop(), []
    for n, script in enumerate(scripts):
        made = partial(Scripted, script, ended)
        _, connection = await loop.create_connection(made, "127.0.0.1", ports[n % len(ports)])
        found.append(connection)
    return found


async def pause(over: "asyncio.Future[None]", seconds: float) -> None:
    """Wait, but not past a failure: that one is raised here."""
    await asyncio.wait([over], timeout=seconds)
    if over.done():
        over.result()
        raise RuntimeError("the scripts ended before their time")


if __name__ == "__main__":
    obey(lambda spec: uvloop.run(run(spec)))
