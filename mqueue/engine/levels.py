"""How full namespaces are: what is stored, and what is leased. Reserved before it is added, so that no number of racing
processes goes beyond a limit; counted anew only when a limit seems to be reached."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mqueue.core.errors import ShardUnavailable
from mqueue.engine.coalesce import Coalescer
from mqueue.hot.limits import Limits, Reserved, Wish
from shards.calls import fetch
from shards.cluster import Cluster
from shards.pools import Database
from shards.sql import statement

STORED, LEASED = 0, 1  # places in a count
NAMES = ("stored", "leased")
REST, LONGEST_REST_S = 10, 1.0  # a count rests ten times as long as it took: it costs a tenth of one core at most
ALONE_S = 1.0  # for so long a process goes by its count while nobody can be asked
MOST = 500
Count = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Room:
    """What was reserved, to be settled when it is known how much of it was added."""

    kind: int
    namespace: str
    granted: int
    period: int = -1  # below zero: nobody but this process knows of it

    def part(self, granted: int) -> "Room":
        return Room(self.kind, self.namespace, granted, self.period)

    def is_like(self, other: "Room") -> bool:
        return (self.kind, self.namespace, self.period) == (other.kind, other.namespace, other.period)


@dataclass(slots=True)
class Known:
    """A count, and what this process has taken of the room since."""

    count: int
    at: float
    taken: int = 0


class Counts:
    """Callers that come while a count is under way share the next one, so each sees what was there when it came."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._last: dict[Database, dict[str, Count]] = {shard: {} for shard in cluster.shards}
        self._rests_until = 0.0
        self._counts: Coalescer[str, Count] = Coalescer(self._count, most=MOST, name="count namespaces")

    async def of(self, namespace: str) -> Count:
        return await self._counts.submit(namespace)

    async def _count(self, namespaces: Sequence[str]) -> list[Count]:
        await asyncio.sleep(max(0.0, self._rests_until - time.monotonic()))
        began = time.monotonic()
        wanted = sorted(set(namespaces))
        parts = await asyncio.gather(*(self._count_on(shard, wanted) for shard in self._cluster.shards))
        now = time.monotonic()
        self._rests_until = now + min(LONGEST_REST_S, REST * (now - began))
        sums = {
            name: [sum(part.get(name, (0, 0))[kind] for part in parts) for kind in (STORED, LEASED)] for name in wanted
        }
        return [(sums[name][STORED], sums[name][LEASED]) for name in namespaces]

    async def _count_on(self, shard: Database, namespaces: list[str]) -> dict[str, Count]:
        """As it was when it answered last, where the shard is down."""
        known = self._last[shard]
        try:
            rows: list[Any] = await fetch(shard, statement("stored"), {"namespaces": namespaces})
        except ShardUnavailable:
            return known
        if len(known) > 10 * MOST:
            known.clear()
        found = {row[0]: (row[1], row[2]) for row in rows}
        known.update({name: found.get(name, (0, 0)) for name in namespaces})
        return known


class Levels:
    def __init__(self, limits: Limits, counts: Counts, processes: int) -> None:
        self._limits, self._counts, self._processes = limits, counts, processes
        self._reserves: Coalescer[Wish, Reserved | None] = Coalescer(self._reserve, most=MOST, name="reserve room")
        self._settles: Coalescer[tuple[str, int, int, int], None] = Coalescer(
            self._settle, most=MOST, name="settle room"
        )
        self._known: dict[tuple[int, str], Known] = {}  # while nobody can be asked

    async def reserve(self, kind: int, namespace: str, wanted: int, least: int, limit: int) -> Room | None:
        """As much as there is room for; None where that is less than the least that will do."""
        name = f"{NAMES[kind]}:{namespace}"
        found = await self._reserves.submit(Wish(name, wanted, least, limit))
        if found and found.granted < 0:
            count = (await self._counts.of(namespace))[kind]
            found = await self._reserves.submit(Wish(name, wanted, least, limit, count, found.mark))
        if found is None:
            return await self._reserve_alone(kind, namespace, wanted, least, limit)
        return Room(kind, namespace, found.granted, found.period) if found.granted >= least else None

    async def settle(self, room: Room, added: int) -> None:
        if room.period >= 0:
            await self._settles.submit((f"{NAMES[room.kind]}:{room.namespace}", room.period, room.granted, added))
        elif known := self._known.get((room.kind, room.namespace)):
            known.taken -= room.granted - added

    async def renew(self, room: Room) -> Room:
        """What is held for minutes stays reserved."""
        if room.period < 0:
            return room
        period = await self._limits.renew(f"{NAMES[room.kind]}:{room.namespace}", room.period, room.granted)
        return room if period is None else Room(room.kind, room.namespace, room.granted, period)

    async def _reserve_alone(self, kind: int, namespace: str, wanted: int, least: int, limit: int) -> Room | None:
        """Our part of what is free by the count; at least one, so that a small limit stops nobody."""
        processes = max(self._processes, self._limits.processes)
        known = self._known.get((kind, namespace))
        for is_counted in (False, True):
            if is_counted or known is None or time.monotonic() - known.at > ALONE_S:
                count = (await self._counts.of(namespace))[kind]
                known = self._known[kind, namespace] = Known(count, time.monotonic())
            free = limit - known.count
            share = max(free // processes, min(least, free)) - known.taken
            if share >= least:
                granted = min(wanted, share)
                known.taken += granted
                return Room(kind, namespace, granted)
        return None

    async def _reserve(self, wishes: Sequence[Wish]) -> Sequence[Reserved | None]:
        return await self._limits.reserve(wishes) or [None] * len(wishes)

    async def _settle(self, rooms: Sequence[tuple[str, int, int, int]]) -> Sequence[None]:
        await self._limits.settled(rooms)
        return [None] * len(rooms)
