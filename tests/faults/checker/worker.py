"""What the coroutines of one load process share, and how their calls are written down."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

from shards.routing import SLOTS, slot_of
from tests.faults.checker.client import Answer, Client
from tests.faults.checker.messages import NAMESPACE
from tests.faults.checker.record import Recorder

RUN, DRAIN, STOP = "run", "drain", "stop"
# What a client may see in peace and under any fault. 400, 401, 403, 413 and 500 would be somebody's mistake.
EXPECTED = frozenset({0, 200, 202, 404, 409, 503})


@dataclass
class Worker:
    port: int
    token: str
    process: int
    seed: str
    topics: list[str]
    deep: list[str]  # topics that are left to pile up for a while, and then consumed by short polls
    rate: float  # messages a second
    offset: int  # of the wall clock
    recorder: Recorder
    phase: str = RUN
    recent: deque[tuple[str, int]] = field(default_factory=lambda: deque(maxlen=400))  # topic and id of what was added
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def rng(self, role: str, number: int) -> Random:
        return Random(f"{self.seed}/{self.process}/{role}/{number}")

    def client(self) -> Client:
        return Client(self.port, self.token)

    def number_of(self, topic: str) -> int:
        return self.topics.index(topic)

    def note(self, verb: str, topic: str, answer: Answer) -> None:
        """Every call: how long it took and how it ended. Who left by himself has nothing to tell."""
        if not answer.has_left:
            self.recorder.call(verb, self.number_of(topic), answer)
        if answer.status not in EXPECTED or (answer.status == 503 and not answer.says_when):
            self.recorder.line("problems", answer.began, answer.ended, verb, answer.status, str(answer.body)[:500])

    async def rest(self, seconds: float) -> None:
        """Unless the run is over before."""
        try:
            async with asyncio.timeout(seconds):
                await self.stopped.wait()
        except TimeoutError:
            pass


def place(topic: str) -> dict[str, Any]:
    return {"namespace": NAMESPACE, "topic": topic}


def is_home(message_id: int, topic: str) -> bool:
    """An id names the slot of its topic."""
    return message_id % SLOTS == slot_of(NAMESPACE, topic)
