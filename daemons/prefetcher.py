"""The prefetcher: builds the heads of the topics that somebody consumes in Redis, and keeps them complete.

One is at work for a shard, others stand by; two at once do no harm, since each fill and each look ahead counts only if
no other has been announced meanwhile. docs/protocol.md says why the sets are right.
"""

import asyncio
import contextlib
import datetime
import heapq
import time
from collections.abc import Sequence

import redis

from daemons.base import Daemon
from daemons.sparing import Sparing
from mqueue.core.errors import ShardUnavailable
from mqueue.engine.hot import Hot, Shard
from mqueue.hot.building import Building, Standing
from mqueue.hot.refs import EVERYTHING, NOTHING, PLACE, place_of
from shards.cluster import Cluster
from shards.pools import Database
from shards.sql import statement
from tenants.settings_cache import SettingsCache

FILL, LOW = 4_000, 2_000  # refs of one fill; a topic with fewer before its bound is filled
KEEP, MOST = 10_000, 20_000  # refs of a topic: trimmed to, and when
AHEAD_US, RENEW_US = 12_000_000, 6_000_000  # how far a look ahead reaches, and when the next is due
AHEAD_TOPICS, AHEAD_REFS = 100, 5_000  # of one look
IDLE_S, STANDBY_S, AWAY_S = 0.1, 0.4, 0.5
PAGE, PAGE_EVERY_S = 1_000, 5.0
GENERATION_EVERY_S = 0.5
AT_ONCE = 4
ERRORS = (redis.RedisError, OSError, TimeoutError)


class Prefetcher(Daemon):
    kind = "prefetcher"

    def __init__(self, shard: Database, hot: Shard, building: Building) -> None:
        self.name = f"{self.kind} of {shard.name}"
        self._shard, self._hot, self._building = shard, hot, building
        self._looked_at_generation = 0.0
        self._paging = Sparing(PAGE_EVERY_S)
        self._pages: dict[int, str] = {}

    @classmethod
    def all_of(cls, cluster: Cluster, hot: Hot, settings: SettingsCache) -> list[Daemon]:  # noqa: ARG003
        return [cls(shard, hot[shard], hot.building(number)) for number, shard in enumerate(cluster.shards)]

    async def run_once(self) -> float:
        try:
            if not await self._building.own():
                return STANDBY_S
            return await self._tend()
        except ERRORS:
            return AWAY_S
        except ShardUnavailable:
            return AWAY_S

    async def leave(self) -> None:
        with contextlib.suppress(*ERRORS):
            await self._building.disown()

    async def _tend(self) -> float:
        now = time.monotonic()
        if now - self._looked_at_generation > GENERATION_EVERY_S:
            await self._building.enter_generation()
            self._looked_at_generation = now
        standings = await self._building.survey(self._hot.clock.now_us())
        await self._look_ahead(standings)
        for one in standings:
            if one.refs > MOST:
                await self._building.trim(one.topic, KEEP)
        hungry = [one for one in standings if not one.complete and one.before_bound < LOW]
        filled = await self._fill_all(hungry)
        if self._paging.is_due:
            with self._paging.look():
                await self._page(standings)
                await self._building.cool_the_unwanted(self._hot.clock.now_us())
        return 0 if filled else IDLE_S

    async def _look_ahead(self, standings: Sequence[Standing]) -> None:
        now = self._hot.clock.now_us()
        stale = [one.topic for one in standings if one.horizon_us < now + RENEW_US]
        for start in range(0, len(stale), AHEAD_TOPICS):
            stuck, limit = stale[start : start + AHEAD_TOPICS], AHEAD_REFS
            while stuck:
                stuck, limit = await self._look_ahead_at(stuck, now + AHEAD_US, limit), limit * 4

    async def _look_ahead_at(self, topics: Sequence[int], until_us: int, limit: int) -> list[int]:
        """The topics where more messages than the limit share one due time: those need a higher one."""
        horizons = await self._building.begin_ahead(until_us, topics)
        if not horizons:
            return []
        parameters = {
            "topic": list(topics),
            "since": [_time(horizon) if horizon else None for horizon in horizons],
            "until": _time(until_us),
            "limit": limit,
        }
        async with self._shard.connection() as connection:
            rows = await (await connection.execute(statement("ahead"), parameters)).fetchall()
        soon: dict[int, list[tuple[int, str]]] = {topic: [] for topic in topics}
        for topic, due, ref in rows:
            soon[topic].append((due, ref))
        stuck = []
        for (topic, found), horizon in zip(soon.items(), horizons, strict=True):
            reached = until_us if len(found) < limit else found[-1][0]
            if len(found) >= limit and reached <= horizon:
                stuck.append(topic)
            else:
                await self._building.end_ahead(until_us, topic, reached, found)
        return stuck

    async def _fill_all(self, hungry: Sequence[Standing]) -> bool:
        """The emptiest first, a few at a time, so that one deep topic holds up none."""
        queue = [(one.before_bound, one.topic) for one in hungry]
        heapq.heapify(queue)
        filled = False

        async def work() -> None:
            nonlocal filled
            while queue:
                _, topic = heapq.heappop(queue)
                filled |= await self._fill(topic)

        await asyncio.gather(*(work() for _ in range(min(AT_ONCE, len(queue)))))
        return filled

    async def _fill(self, topic: int) -> bool:
        begun = await self._building.begin_fill(topic)
        if begun is None:
            return False
        token, bound = begun
        refs = await self._read(topic, bound, FILL)
        new_bound = EVERYTHING if len(refs) < FILL else refs[-1][:PLACE] + EVERYTHING
        return await self._building.end_fill(topic, token, new_bound, refs) and len(refs) == FILL

    async def _page(self, standings: Sequence[Standing]) -> None:
        """From the start of the order: what a process left that died between its commit and its offer."""
        self._pages = {one.topic: self._pages[one.topic] for one in standings if one.topic in self._pages}
        for one in standings:
            if not one.has_bound:
                continue
            place = self._pages.pop(one.topic, NOTHING)
            with contextlib.suppress(ShardUnavailable):  # too long for one statement: the others have their turn
                refs = await self._read(one.topic, place, PAGE)
                if await self._building.add(one.topic, refs) and len(refs) == PAGE:
                    self._pages[one.topic] = refs[-1][:PLACE]

    async def _read(self, topic: int, place: str, limit: int) -> list[str]:
        parameters = place_of(place) | {"topic": topic, "limit": limit}
        async with self._shard.connection() as connection:
            return [row[0] for row in await (await connection.execute(statement("fill"), parameters)).fetchall()]


def _time(microseconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(microseconds=microseconds)
