"""python -m bench.latency_load: how long single messages take. Speaks as `bench.load` does.

Sent on schedule whether or not the answers keep up, and counted from the scheduled time: a stall counts for all that it
delays, as it would for users who know nothing of each other.
"""

import asyncio
import json
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import uvloop

from bench.client import Asking, Requests
from bench.scripts import NAMESPACE
from bench.speak import begin, obey

CONSUMERS, PRODUCERS = 4, 16
Fields = Callable[[float], dict[str, Any]]


async def waiting(spec: dict[str, Any]) -> list[float]:
    """From the time at which a message should have been sent to its arrival at a consumer that waits."""

    def taken(message: dict[str, Any]) -> float:
        return time.perf_counter() - float(message["body"].split()[0])

    return await received(spec, lambda at: {"body": f"{at:.9f} ".ljust(198, "x")}, taken)


async def late(spec: dict[str, Any]) -> list[float]:
    """From the time for which a message was scheduled to its arrival at a consumer that waits."""

    def taken(message: dict[str, Any]) -> float:
        return time.time() - datetime.fromisoformat(message["deliver_after"]).timestamp()

    return await received(spec, lambda at: {"body": "x" * 198, "delay_ms": 50 + int(1000 * at) % 50}, taken)


async def received(spec: dict[str, Any], fields: Fields, taken: Callable[[dict[str, Any]], float]) -> list[float]:
    """What of each message that consumers get, sent on schedule."""
    requests, count = Requests(spec["token"]), int(spec["rate"] * spec["seconds"])
    found: list[float] = []
    topic = {"namespace": NAMESPACE, "topic": spec["topic"]}

    async def consume(connection: Asking) -> None:
        poll = requests.post("/dequeue", json.dumps(topic | {"wait_ms": 2000}).encode())
        while len(found) < count:
            leased = await connection.ask(poll)
            found.extend(map(taken, json.loads(leased)))
            if leased != b"[]":
                await connection.ask(requests.post("/ack", leased))

    def message(at: float) -> bytes:
        return requests.post("/enqueue", json.dumps(topic | fields(at)).encode())

    consumers = [asyncio.create_task(consume(await Asking.open(spec["ports"][0]))) for _ in range(CONSUMERS)]
    await asyncio.sleep(1)
    begin()
    await on_schedule(spec, message)
    await asyncio.gather(*consumers)
    return found


async def on_schedule(spec: dict[str, Any], request: Any) -> list[float]:
    """Send a request a slot of the schedule; the seconds from each slot to the answer."""
    connections = [await Asking.open(spec["ports"][0]) for _ in range(PRODUCERS)]
    began, found = time.perf_counter(), []

    async def send(connection: Asking, at: float) -> None:
        await connection.ask(request(at))
        found.append(time.perf_counter() - at)

    async with asyncio.TaskGroup() as sending:
        for n in range(int(spec["rate"] * spec["seconds"])):
            at = began + n / spec["rate"]
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            sending.create_task(send(connections[n % PRODUCERS], at))
    return found


async def topics(spec: dict[str, Any]) -> list[float]:
    """Dequeues from one topic after the other, each of which has one message: from its slot to its answer."""
    requests, names = Requests(spec["token"]), iter(spec["names"])

    def dequeue(at: float) -> bytes:
        return requests.post("/dequeue", json.dumps({"namespace": NAMESPACE, "topic": next(names)}).encode())

    begin()
    return await on_schedule(spec, dequeue)


async def looks(spec: dict[str, Any]) -> list[float]:
    """Looks of one kind, at random places, one at a time."""
    requests, found = Requests(spec["token"]), []
    connection = await Asking.open(spec["ports"][0])
    begin()
    for path in spec["paths"]:
        began = time.perf_counter()
        await connection.ask(requests.get(path))
        found.append(time.perf_counter() - began)
    return found


def summed_up(found: list[float]) -> dict[str, float]:
    """In milliseconds."""
    found.sort()
    named = {f"p{p}": 1e3 * found[min(len(found) - 1, len(found) * p // 100)] for p in (50, 90, 99)}
    return named | {"most": 1e3 * found[-1], "messages": len(found)}


def main(spec: dict[str, Any]) -> dict[str, float]:
    """One of the works."""
    work = {"waiting": waiting, "late": late, "topics": topics, "looks": looks}[spec["work"]]
    return summed_up(uvloop.run(work(spec)))


if __name__ == "__main__":
    obey(main)
