"""What the connections of a load do: generators that yield requests and get answers. They check what they are told."""

import json
from collections.abc import Callable, Generator
from itertools import cycle
from typing import Any

from bench.client import Refused, Requests, Script

NAMESPACE = "bench"
QUOTES = 2  # a body of text is JSON, so two of the payload's bytes are its quotes
RECEIPT, ACKED = b'"receipt":', b'"state":"acked"'


class Tally:
    """What the scripts of one run share: their orders, what they got done, and who waits for room in the queue."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.done = 0
        self.backlog = spec.get("backlog", 0)
        self.parked: list[int] = []
        self.goes: list[Callable[[], None]] = []

    def wake(self) -> None:
        """Let the producers that are parked look again."""
        parked, self.parked = self.parked, []
        for number in parked:
            self.goes[number]()


def topics(spec: dict[str, Any]) -> list[str]:
    """The names of the topics of a load."""
    count = spec.get("topics", 1)
    return [spec["topic"]] if count == 1 else [f"{spec['topic']}-{n}" for n in range(count)]


def enqueue_requests(requests: Requests, spec: dict[str, Any]) -> list[bytes]:
    """One request a topic; batches spread over the topics."""
    batch, body = spec.get("batch", 0), "x" * (spec.get("payload", 200) - QUOTES)
    more = spec.get("fields", {})
    messages = [{"namespace": NAMESPACE, "topic": name, "body": body, **more} for name in topics(spec)]
    if not batch:
        return [requests.post("/enqueue", json.dumps(message).encode()) for message in messages]
    ring = cycle(messages)
    arrays = [[next(ring) for _ in range(batch)] for _ in range(max(1, len(messages) // batch))]
    return [requests.post("/enqueue", json.dumps(array).encode()) for array in arrays]


def dequeue_requests(requests: Requests, spec: dict[str, Any], **more: int) -> list[bytes]:
    """One request a topic."""
    wanted = {"namespace": NAMESPACE, "limit": spec.get("limit", 1), **more}
    return [requests.post("/dequeue", json.dumps(wanted | {"topic": name}).encode()) for name in topics(spec)]


def enqueue(requests: Requests, tally: Tally) -> list[Script]:
    """Every connection enqueues, as fast as it is answered."""
    prepared, count = enqueue_requests(requests, tally.spec), tally.spec.get("batch", 0) or 1

    def script(first: int) -> Script:
        for request in cycle(prepared[first:] + prepared[:first]):
            yield request
            tally.done += count

    connections = tally.spec["connections"]
    return [script(n * len(prepared) // connections) for n in range(connections)]


def fill(requests: Requests, tally: Tally) -> list[Script]:
    """Enqueue so many messages, then end."""
    ring, left = cycle(enqueue_requests(requests, tally.spec)), tally.spec["most"] // tally.spec["batch"]

    def script() -> Script:
        nonlocal left
        while left:
            left -= 1
            yield next(ring)
            tally.done += tally.spec["batch"]

    return [script() for _ in range(tally.spec["connections"])]


def drain(requests: Requests, tally: Tally) -> list[Script]:
    """Every connection dequeues and acks; a topic that runs empty ends the run."""
    prepared = dequeue_requests(requests, tally.spec)

    def script(first: int) -> Script:
        for request in cycle(prepared[first:] + prepared[:first]):
            leased = yield request
            if leased == b"[]":
                raise Refused("a topic ran empty")
            count = yield from ack(requests, leased)
            tally.done += count

    connections = tally.spec["connections"]
    return [script(n * len(prepared) // connections) for n in range(connections)]


def circulate(requests: Requests, tally: Tally) -> list[Script]:
    """Producers keep the backlog at its depth while consumers dequeue and ack."""
    spec = tally.spec
    ring = cycle(enqueue_requests(requests, spec))
    polls = cycle(dequeue_requests(requests, spec, wait_ms=1000))

    def produce(number: int) -> Script:
        while True:
            while tally.backlog >= spec["depth"]:
                tally.parked.append(number)
                yield None
            tally.backlog += spec["batch"]
            yield next(ring)

    def consume() -> Script:
        while True:
            leased = yield next(polls)
            if leased != b"[]":
                count = yield from ack(requests, leased)
                tally.done += count
                tally.backlog -= count
                tally.wake()

    producers = [produce(number) for number in range(spec["producers"])]
    return producers + [consume() for _ in range(spec["consumers"])]


def ack(requests: Requests, leased: bytes) -> Generator[bytes | None, bytes, int]:
    """Send back what a dequeue answered, which is what an ack takes; how many messages were settled."""
    answer = yield requests.post("/ack", leased)
    count = leased.count(RECEIPT)
    if answer.count(ACKED) != count:
        raise Refused(f"not every lease was settled: {answer[:500].decode()}")
    return count


SCRIPTS: dict[str, Callable[[Requests, Tally], list[Script]]] = {
    "enqueue": enqueue,
    "fill": fill,
    "drain": drain,
    "circulate": circulate,
}
