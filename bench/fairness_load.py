"""python -m bench.fairness_load: a quiet namespace that is timed, and one that floods. Speaks as `bench.load` does."""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import uvloop

from bench.client import OK, Asking, Refused, Requests, Script, Scripted
from bench.latency_load import PRODUCERS, summed_up
from bench.speak import begin, obey

QUIET, FLOOD = "quiet", "flood"
TOO_MANY = b"HTTP/1.1 429"
BATCH = 1_000
TICK_S = 0.002
BODY = "x" * 198


def message(namespace: str) -> dict[str, str]:
    return {"namespace": namespace, "topic": "t", "body": BODY}


async def quiet(spec: dict[str, Any]) -> dict[str, Any]:
    """An enqueue, a dequeue of what is there and an ack on schedule, whether or not the others are back."""
    requests = Requests(spec["token"])
    verbs: dict[str, list[float]] = {"enqueue": [], "dequeue": [], "ack": []}
    connections = [await Asking.open(spec["ports"][0]) for _ in range(PRODUCERS)]
    add = requests.post("/enqueue", json.dumps(message(QUIET)).encode())
    take = requests.post("/dequeue", json.dumps({"namespace": QUIET, "topic": "t"}).encode())
    for _ in range(PRODUCERS):
        await connections[0].ask(add)

    async def cycle(connection: Asking, at: float) -> None:
        await timed("enqueue", connection, add, at)
        leased = await timed("dequeue", connection, take, time.perf_counter())
        if leased != b"[]":
            await timed("ack", connection, requests.post("/ack", leased), time.perf_counter())

    async def timed(verb: str, connection: Asking, request: bytes, at: float) -> bytes:
        answer = await connection.ask(request)
        verbs[verb].append(time.perf_counter() - at)
        return answer

    begin()
    began = time.perf_counter()
    async with asyncio.TaskGroup() as sending:
        for n in range(int(spec["rate"] * spec["seconds"])):
            at = began + n / spec["rate"]
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            sending.create_task(cycle(connections[n % PRODUCERS], at))
    both = summed_up(verbs["enqueue"] + verbs["dequeue"])
    return both | {verb: summed_up(found) for verb, found in verbs.items()}


class Flooding(Scripted):
    """What is refused by a quota is an answer, too."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data.replace(TOO_MANY, OK + b"29", 1) if data.startswith(TOO_MANY) else data)


def cycles(requests: Requests, park: Callable[[int], None], number: int) -> Script:
    """Enqueue, dequeue and ack, each time when it is let go."""
    add = requests.post("/enqueue", json.dumps(message(FLOOD)).encode())
    take = requests.post("/dequeue", json.dumps({"namespace": FLOOD, "topic": "t"}).encode())
    while True:
        park(number)
        yield None
        yield add
        leased = yield take
        if leased.startswith(b"[{"):
            yield requests.post("/ack", leased)


def batches(requests: Requests, park: Callable[[int], None] | None, number: int) -> Script:
    """Each time when it is let go; or as fast as they are answered."""
    add = requests.post("/enqueue", json.dumps([message(FLOOD)] * BATCH).encode())
    while True:
        if park:
            park(number)
            yield None
        yield add


def ended(error: Exception | None) -> None:
    raise error or Refused("a flood does not end")


async def flood(spec: dict[str, Any]) -> dict[str, Any]:
    """So many cycles, or batches of a thousand, a second over all connections; without a rate, all they can."""
    requests, parked, connections = Requests(spec["token"]), deque[int](), list[Flooding]()
    rate = spec["rate"] or 0
    for n in range(spec["connections"]):
        park = parked.append if rate else None
        script = batches(requests, park, n) if spec["batches"] else cycles(requests, parked.append, n)
        made = partial(Flooding, script, ended)
        _, connection = await asyncio.get_running_loop().create_connection(made, "127.0.0.1", spec["ports"][0])
        connections.append(connection)
    for connection in connections:
        connection.go()
    begin()
    began, started = time.perf_counter(), 0
    while time.perf_counter() < began + spec["seconds"]:
        await asyncio.sleep(TICK_S)
        wanted = int((time.perf_counter() - began) * rate)
        while parked and started < wanted:
            started += 1
            connections[parked.popleft()].go()
        started = max(started, wanted - spec["connections"])  # who could not keep up does not make up for it later
    return {"messages": started}


def main(spec: dict[str, Any]) -> dict[str, Any]:
    """One of the two."""
    return uvloop.run({"quiet": quiet, "flood": flood}[spec["work"]](spec))


if __name__ == "__main__":
    obey(main)
