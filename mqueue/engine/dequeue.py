"""Lease what is due, in order: one line for each topic that somebody asks for."""

from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from mqueue.core import metrics
from mqueue.core.messages import Delivered, Dequeue
from mqueue.engine.claims import Claims
from mqueue.engine.hot import Hot
from mqueue.engine.line import Line
from mqueue.engine.source import Home, Source
from mqueue.engine.throttle import Throttle
from mqueue.engine.topics import Topics
from shards.cluster import Cluster
from shards.pools import Database
from tenants.registry import Name


class Dequeuing:
    def __init__(
        self,
        cluster: Cluster,
        topics: Topics,
        hot: Hot,
        throttle: Callable[[Name, int], Throttle],
        weights: Mapping[str, int],
    ) -> None:
        self._cluster, self._topics, self._hot, self._throttle = cluster, topics, hot, throttle
        self._claims = {shard: Claims(shard, hot[shard], weights) for shard in cluster.shards}
        self._lines: dict[int, Line] = {}
        hot.on_wake(self._wake)
        cluster.slots.on_change(self._wake_all)

    async def dequeue(self, consumer: str, wanted: Dequeue) -> list[Delivered]:
        """Empty for a topic that nobody has made yet. Waits up to wait_ms for the first message."""
        name = (wanted.namespace, wanted.topic)
        number = self._topics.known(name)
        if number is None:
            number, waited_s = await self._topics.wait_for(name, wanted.wait_ms / 1000)
            if number is None:
                return []
            wanted = replace(wanted, wait_ms=max(0, wanted.wait_ms - int(waited_s * 1000)))
        line = self._lines.get(number)
        if line is None:
            source = Source(
                name,
                number,
                self._cluster,
                self._home,
                settings=self._topics.settings,
                throttle=self._throttle(name, number),
            )
            handed_out = partial(_count, name)
            line = self._lines[number] = Line(source, self._hot, partial(self._forget, number), handed_out)
        return await line.take(wanted, consumer)

    def _home(self, shard: Database) -> Home:
        return Home(shard, self._claims[shard], self._hot[shard])

    def _wake_all(self) -> None:
        """Slots have another owner: whoever waits for their topics asks there from now on."""
        for line in list(self._lines.values()):
            line.wake()

    def _wake(self, topic: int, in_s: float) -> None:
        if line := self._lines.get(topic):
            line.wake(in_s)

    def _forget(self, topic: int, line: Line) -> None:
        if self._lines.get(topic) is line:
            del self._lines[topic]


def _count(name: Name, handed_out: int) -> None:
    metrics.DEQUEUED.add(handed_out, *name)
