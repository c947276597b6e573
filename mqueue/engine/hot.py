"""The sets of all shards, as the verbs use them: callers share calls, and every row that waits is offered."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mqueue.core.conf import Conf
from mqueue.core.errors import Undecided
from mqueue.engine.coalesce import ALIKE, AT_ONCE, Coalescer
from mqueue.hot import keys
from mqueue.hot.buffer import Buffer
from mqueue.hot.building import Building
from mqueue.hot.connection import connect
from mqueue.hot.limits import Limits
from mqueue.hot.refs import microseconds
from mqueue.hot.sets import COLD, DUE, Head, Offer, Sets, Taken
from mqueue.hot.wakes import Wakes
from shards.clock import Clock
from shards.cluster import Cluster
from shards.pools import Database
from shards.tasks import end

PATIENCE_S = 0.25  # a Redis that takes longer is left alone; everything works without
BUFFER_PATIENCE_S = 2.5  # a buffered topic does not; Redis itself stands still for 2 s when its disk is slow
FORGET_S = 0.05  # unless a pop takes them along before
TOPICS, OFFERS = 200, 2_000  # of one call


class Shard:
    """One shard's sets and its clock."""

    def __init__(self, database: Database, sets: Sets, weights: Mapping[str, int]) -> None:
        self.clock, self._sets = Clock(database), sets
        self._pops: Coalescer[tuple[int, int], Head] = Coalescer(
            self._pop, most=TOPICS, name="pop", weights=weights, turns=AT_ONCE
        )
        self._claimed: list[Taken] = []  # to be forgotten with the next pop, or soon
        self._forgetting: asyncio.Task[None] | None = None
        self._offers: Coalescer[list[Offer], None] = Coalescer(
            self._offer, most=OFFERS, flights=2, name="offer", turns=AT_ONCE
        )

    @property
    def is_away(self) -> bool:
        return self._sets.is_away

    async def close(self) -> None:
        await self.clock.close()
        await end(self._forgetting)
        await self._sets.close()

    async def pop(self, topic: int, limit: int, owner: str) -> Head:
        return await self._pops.submit((topic, limit), 1, owner)

    def done(self, topic: int, refs: Sequence[str]) -> None:
        """They are claimed, or claim nothing any more; nobody waits for Redis to know."""
        self._claimed.append(Taken(topic, refs))
        if self._forgetting is None or self._forgetting.done():
            self._forgetting = asyncio.create_task(self._forget(), name="forget what is claimed")

    async def offer(self, offers: list[Offer]) -> None:
        if offers:
            await self._offers.submit(offers, len(offers))

    async def offer_many(self, by_topic: dict[int, tuple[str, int]], offers_of: Callable[[int], list[Offer]]) -> None:
        """Offers that are costly to make: first each topic's least ref and due time, then all where they are of use."""
        topics = [(topic, ref, due_us) for topic, (ref, due_us) in by_topic.items()]
        useful = await self._sets.sieve(topics, self.clock.now_us())
        await self.offer(
            [offer for (topic, _, _), use in zip(topics, useful, strict=True) if use for offer in offers_of(topic)]
        )

    async def offer_rows(self, rows: Iterable[Sequence[Any]], if_due: int = DUE) -> None:
        """Rows of topic, ref and due, which is null or missing for what is due."""
        await self.offer(
            [Offer(row[0], microseconds(row[2]) if row[2:] and row[2] else if_due, row[1]) for row in rows]
        )

    async def cool(self, topics: Iterable[int]) -> None:
        """Somebody else's row of these may not have been offered."""
        await self._sets.cool(topics)

    def owe(self, topics: Iterable[int]) -> None:
        self._sets.owe(topics)

    @contextlib.contextmanager
    def owing(self, topics: Iterable[int]) -> Iterator[None]:
        """Around what makes rows wait: if nobody knows whether it did, nobody offers them."""
        try:
            yield
        except Undecided:
            self.owe(topics)
            raise

    async def _pop(self, wanted: Sequence[tuple[int, int]]) -> Sequence[Head]:
        if not self.clock.is_measured:
            return [COLD] * len(wanted)
        claimed, self._claimed = self._claimed, []
        return await self._sets.pop(wanted, self.clock.now_us(), claimed)

    async def _forget(self) -> None:
        await asyncio.sleep(FORGET_S)
        while claimed := self._claimed[:TOPICS]:
            del self._claimed[:TOPICS]
            await self._sets.done(claimed)

    async def _offer(self, parts: Sequence[list[Offer]]) -> Sequence[None]:
        await self._sets.offer([one for part in parts for one in part], self.clock.now_us())
        return [None] * len(parts)


class Hot:
    def __init__(self, conf: Conf, cluster: Cluster, weights: Mapping[str, int] = ALIKE) -> None:
        self._client = connect(conf.redis, timeout_s=PATIENCE_S, text=True, retries=0)  # `Sets` tries again
        self._ear = connect(conf.redis, timeout_s=None, text=True)
        self._raw = connect(conf.redis, timeout_s=BUFFER_PATIENCE_S)
        self._buffers = [Buffer(self._raw, number) for number in range(len(cluster.shards))]
        self._shards = {
            database: Shard(database, Sets(self._client, number), weights)
            for number, database in enumerate(cluster.shards)
        }
        self.limits = Limits(self._client)
        self._wake: Callable[[int, float], None] | None = None
        self._wakes = Wakes(self._ear, [keys.wake(number) for number in range(len(cluster.shards))], self._woken)

    def __getitem__(self, database: Database) -> Shard:
        return self._shards[database]

    @property
    def hears_arrivals(self) -> bool:
        return self._wakes.is_listening

    @property
    def is_away(self) -> bool:
        return any(shard.is_away for shard in self._shards.values())

    def building(self, number: int) -> Building:
        return Building(self._client, number)

    def buffer(self, number: int) -> Buffer:
        return self._buffers[number]

    def on_wake(self, wake: Callable[[int, float], None]) -> None:
        """Called with a topic, and in how many seconds something of it will be due."""
        self._wake = wake

    async def open(self, *, listen: bool) -> None:
        for shard in self._shards.values():
            shard.clock.open()
        if listen:
            self._wakes.open()

    async def close(self) -> None:
        await self._wakes.close()
        for shard in self._shards.values():
            await shard.close()
        await self.limits.close()
        await self._client.aclose()
        await self._raw.aclose()
        await self._ear.aclose()

    def _woken(self, topic: int, due_us: int) -> None:
        # Clocks of shards differ by less than a timer can tell; a claim that comes too soon is tried again.
        if not self._wake:
            return
        clock = next(iter(self._shards.values())).clock
        self._wake(topic, max(0.0, clock.until_s(due_us)) if due_us else 0.0)
