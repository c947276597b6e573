"""One shard's sets as the prefetcher builds them. Each call names its generation, and counts in no other."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from mqueue.hot import keys
from mqueue.hot.careful import run_of
from mqueue.hot.sets import DEMAND_US, script

OWNER_MS = 1_500  # a prefetcher that is silent for so long is succeeded
TOPICS = 10_000  # kept hot at most: those asked for last
SCRIPTS = ("fill_begin", "fill_end", "ahead_begin", "ahead_end", "trim", "add", "survey", "cool")
RENEW = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2]) or 0"


@dataclass(frozen=True, slots=True)
class Standing:
    """How one topic stands."""

    topic: int
    has_bound: bool
    complete: bool
    horizon_us: int
    before_bound: int
    refs: int


class Building:
    def __init__(self, client: "Redis", shard: int) -> None:
        self._client, self._shard = client, shard
        self._prefix, self._keys = keys.prefix(shard), [keys.generation(shard)]
        self._scripts = {name: client.register_script(script(name)) for name in SCRIPTS}
        self._renew = client.register_script(RENEW)
        self._me = secrets.token_hex(8)
        self.generation = ""

    async def own(self) -> bool:
        """Whether we are the shard's prefetcher for the next moment. A second one would do no harm, only work."""
        key = keys.owner(self._shard)
        if await self._client.set(key, self._me, nx=True, px=OWNER_MS):
            return True
        return bool(await self._renew(keys=[key], args=[self._me, OWNER_MS]))

    async def disown(self) -> None:
        """So that a standby need not wait."""
        key = keys.owner(self._shard)
        if await self._renew(keys=[key], args=[self._me, OWNER_MS]):
            await self._client.delete(key)

    async def enter_generation(self) -> None:
        """The one that is there, or a new one: sets that an earlier run of the server has built may miss something."""
        run = await run_of(self._client)
        found: Any = await self._client.get(self._keys[0])
        if found is None or not found.startswith(run):
            new = f"{run}-{secrets.token_hex(4)}"
            await self._client.set(self._keys[0], new)
            if found:
                await self._sweep(found)
            found = new
        self.generation = found

    async def survey(self, now_us: int) -> list[Standing]:
        arguments: list[Any] = [self._prefix, self.generation, now_us - DEMAND_US, TOPICS]
        rows = await self._scripts["survey"](keys=self._keys, args=arguments) or []
        return [Standing(int(row[0]), bool(row[1]), bool(row[2]), int(row[3]), *row[4:]) for row in rows]

    async def cool_the_unwanted(self, now_us: int) -> None:
        """Topics that nobody has asked for in a while."""
        demand, last = keys.demand(self._shard), now_us - DEMAND_US
        while topics := await self._client.zrangebyscore(demand, "-inf", last, start=0, num=500):
            await self._call("cool", *topics, with_generation=False)
            await self._client.zrem(demand, *topics)

    async def cool(self, topics: Sequence[int]) -> None:
        """Whatever generation it is: nobody believes their sets any more."""
        await self._call("cool", *topics, with_generation=False)

    async def begin_fill(self, topic: int) -> tuple[str, str] | None:
        """A token, and the place from which to read."""
        token = secrets.token_hex(8)
        bound = await self._call("fill_begin", topic, token)
        return None if bound is None else (token, bound)

    async def end_fill(self, topic: int, token: str, bound: str, refs: Sequence[str]) -> bool:
        return bool(await self._call("fill_end", topic, token, bound, *refs))

    async def begin_ahead(self, horizon_us: int, topics: Sequence[int]) -> list[int]:
        """Each topic's horizon so far."""
        return [int(horizon) for horizon in await self._call("ahead_begin", horizon_us, *topics) or []]

    async def end_ahead(self, announced_us: int, topic: int, reached_us: int, soon: Sequence[tuple[int, str]]) -> bool:
        return bool(await self._call("ahead_end", announced_us, topic, reached_us, *(x for pair in soon for x in pair)))

    async def trim(self, topic: int, keep: int) -> None:
        await self._call("trim", topic, keep)

    async def add(self, topic: int, refs: Sequence[str]) -> bool:
        """Whether all of them are before the bound."""
        return bool(await self._call("add", topic, *refs))

    async def _call(self, name: str, *arguments: Any, with_generation: bool = True) -> Any:
        head = [self._prefix, self.generation] if with_generation else [self._prefix]
        return await self._scripts[name](keys=self._keys, args=[*head, *arguments])

    async def _sweep(self, generation: str) -> None:
        """The keys of a generation that is over."""
        batch: list[str] = []
        async for key in self._client.scan_iter(match=f"{self._prefix}{generation}:*", count=1000):
            batch.append(key)
            if len(batch) >= 500:
                await self._client.unlink(*batch)
                batch = []
        if batch:
            await self._client.unlink(*batch)
