"""One shard's sets as the data plane uses them: pop, done, offer. Redis may be away: then nothing is hot."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import redis
from redis.asyncio import Redis

from mqueue.hot import keys
from mqueue.hot.careful import CarefulScript
from mqueue.hot.refs import NOTHING

log = logging.getLogger(__name__)
FOLDER = Path(__file__).parent / "scripts"
PATIENCE_US = 1_000_000  # how long a claimer may keep a ref before it counts as dead
DUE, TOLD_BEFORE = 0, -1  # instead of a due time
DEMAND_US = 60_000_000  # how long after the last poll a topic is kept hot, and its consumers are worth a wake-up
# The sets are sought at once and often: meanwhile, others may be served from heads that miss what we could not offer.
# So whoever made a message wait answers when these are cold; but no later than this, since Redis may be away for long,
# and then /health has said so.
SOUGHT_S, SEEK_EVERY_S, SEEK_LATER_S = 0.5, 0.02, 0.1
ERRORS = (redis.RedisError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Head:
    """What a pop found at the head of a topic."""

    is_hot: bool
    bound: str = NOTHING  # fewer refs than were asked for: nothing else that is due stands before it
    next_due_us: int = 0
    refs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Offer:
    """A row that waits now, or waits at another place. due_us: DUE where it is due already, TOLD_BEFORE where somebody
    may have it in his hands by now."""

    topic: int
    due_us: int
    ref: str


class Taken(NamedTuple):
    """Refs of one topic that are to be forgotten: 1,000 at most."""

    topic: int
    refs: Sequence[str]


COLD = Head(is_hot=False)


class Sets:
    def __init__(self, client: "Redis", shard: int) -> None:
        self._client, self._shard, self._prefix = client, shard, keys.prefix(shard)
        self._keys = [keys.generation(shard)]
        self._pop = CarefulScript(client, script("pop"))
        self._done, self._offer, self._sieve, self._cool = (
            client.register_script(script(name)) for name in ("done", "offer", "sieve", "cool")
        )
        self._away_since: float | None = None
        self._owed: set[int] = set()  # topics whose offers were lost: they may not stay hot
        self._seeking: asyncio.Task[None] | None = None  # until they are cold, and Redis answers
        self._lost_a_pop = False  # what it took is to be put back at once: nobody will claim it

    @property
    def is_away(self) -> bool:
        return self._away_since is not None

    async def pop(self, wanted: Sequence[tuple[int, int]], now_us: int, done: Sequence[Taken] = ()) -> list[Head]:
        """The heads of topics, up to so many refs each, after `done`. All cold where Redis does not answer."""
        rest: list[Any] = [len(done), *_parts(done)]
        for pair in wanted:
            rest += pair
        patience_us, self._lost_a_pop = 0 if self._lost_a_pop else PATIENCE_US, False
        answers = None
        try:
            answers = await self._call(self._pop, [now_us, patience_us, *rest], again=[now_us, 0, *rest])
        finally:
            if answers is None:
                self._lost_a_pop = True
        if answers is None:
            return [COLD] * len(wanted)
        if answers[0][0] < 0:
            self._pop.ask_again()  # until a prefetcher begins a generation; or we were told of a run that is over
        return [Head(True, answer[2], int(answer[1]), answer[3:]) if answer[0] > 0 else COLD for answer in answers]

    async def done(self, taken: Sequence[Taken]) -> None:
        """Refs that are claimed, or that claim nothing any more. Where this fails they return, and claim nothing."""
        await self._call(self._done, _parts(taken))

    async def sieve(self, topics: Sequence[tuple[int, str, int]], now_us: int) -> list[bool]:
        """Of topic, least ref that is due and least due time of the rest: where an offer would be of use."""
        arguments = [now_us - DEMAND_US, *(part for one in topics for part in one)]
        answers = await self._call(self._sieve, arguments)
        if answers is None:
            await self._made_cold(topic for topic, _, _ in topics)
            return [False] * len(topics)
        return [answer == 1 for answer in answers]

    async def offer(self, offers: Sequence[Offer], now_us: int) -> None:
        """After this, no hot topic misses one of them: it is in its set, or the topic is cold. Where Redis is away for
        longer, the topic is made cold as soon as it answers."""
        arguments: list[Any] = [now_us - DEMAND_US]
        for one in offers:
            arguments += (one.topic, one.due_us, one.ref)
        if await self._call(self._offer, arguments) is None:
            await self._made_cold(one.topic for one in offers)

    def owe(self, topics: Iterable[int]) -> None:
        """A row of these waits that was not offered: they are made cold as soon as Redis answers."""
        self._owed.update(topics)
        if self._owed:
            self._seek()

    async def cool(self, topics: Iterable[int]) -> None:
        await self._made_cold(topics)

    async def close(self) -> None:
        if self._seeking:
            self._seeking.cancel()
            await asyncio.gather(self._seeking, return_exceptions=True)
        with contextlib.suppress(*ERRORS):
            await self._pay()

    async def _made_cold(self, topics: Iterable[int]) -> None:
        self.owe(topics)
        if self._seeking and not self._seeking.done():
            left_s = SOUGHT_S - (time.monotonic() - (self._away_since or time.monotonic()))
            await asyncio.wait([self._seeking], timeout=max(0.0, left_s))

    def _seek(self) -> None:
        if self._seeking is None or self._seeking.done():
            self._seeking = asyncio.create_task(self._find(), name="make topics cold")

    async def _find(self) -> None:
        """What is owed before it ends is paid when it ends."""
        began = time.monotonic()
        while True:
            try:
                await self._pay()
                if self.is_away:
                    await self._client.set(keys.alive(self._shard), 1, px=1_000)  # it may answer, and take nothing
                if not self._owed:
                    break
            except ERRORS as error:
                self._failed(error)
                is_long = time.monotonic() - began > SOUGHT_S
                await asyncio.sleep(SEEK_LATER_S if is_long else SEEK_EVERY_S)
        self._away_since = None

    async def _call(self, run: Any, arguments: Sequence[Any], again: Sequence[Any] | None = None) -> Any:
        """What the script answers; None where Redis is out of reach. What is owed comes first. Where a connection
        broke, as after a restart, it is tried once more on another."""
        if self.is_away:
            self._seek()  # it is at it, unless something that nobody thought of has ended it
            return None
        try:
            try:
                return await self._run(run, arguments)
            except redis.ConnectionError:
                return await self._run(run, arguments if again is None else again)
        except ERRORS as error:
            self._failed(error)
            return None

    async def _run(self, run: Any, arguments: Sequence[Any]) -> Any:
        await self._pay()
        return await run(keys=self._keys, args=[self._prefix, *arguments])

    async def _pay(self) -> None:
        while self._owed:
            topics = [self._owed.pop() for _ in range(min(1000, len(self._owed)))]
            try:
                await self._cool(keys=self._keys, args=[self._prefix, *topics])
            except BaseException:
                self._owed.update(topics)
                raise

    def _failed(self, error: Exception) -> None:
        if self._away_since is None:
            self._away_since = time.monotonic()
            log.warning("the sets of shard %d are out of reach: %s", self._shard, type(error).__name__)
        self._seek()


def _parts(taken: Sequence[Taken]) -> list[Any]:
    parts: list[Any] = []
    for topic, refs in taken:
        parts += (topic, len(refs), *refs)
    return parts


@cache
def script(name: str) -> str:
    return (FOLDER / f"{name}.lua").read_text()
