"""Room for what lies in logs: buffered messages that no count of a shard sees before they are committed. It stays taken
until they are, however long their shard is down."""

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from mqueue.engine.buffering import Buffering
from mqueue.engine.levels import Levels, Room
from shards.pools import Database
from shards.tasks import end

LOOK_S = 0.25
RENEW_S = 40.0  # what a killed process has reserved is forgotten after a minute


@dataclass(slots=True)
class Held:
    """Until the log of a shard is committed up to a number."""

    room: Room
    number: int
    since: float


class Uncommitted:
    def __init__(self, levels: Levels, buffering: Buffering) -> None:
        self._levels, self._buffering = levels, buffering
        self._held: dict[Database, deque[Held]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def close(self) -> None:
        await end(self._looking)

    def hold(self, room: Room, counts: Mapping[Database, int]) -> None:
        """As much of it as was logged for each shard."""
        for shard, count in counts.items():
            held = self._held.setdefault(shard, deque())
            number, part = self._buffering.last(shard), room.part(count)
            if held and held[-1].room.is_like(room) and time.monotonic() - held[-1].since < LOOK_S:
                held[-1].number = number
                held[-1].room = held[-1].room.part(held[-1].room.granted + count)
            else:
                held.append(Held(part, number, time.monotonic()))
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="wait for what is logged")

    async def _look(self) -> None:
        while any(self._held.values()):
            await asyncio.sleep(LOOK_S)
            for shard, held in list(self._held.items()):  # more may come meanwhile
                while held and self._buffering.is_committed(shard, held[0].number):
                    done = held.popleft()
                    await self._levels.settle(done.room, done.room.granted)
                for one in list(held):
                    if time.monotonic() - one.since > RENEW_S:
                        one.room, one.since = await self._levels.renew(one.room), time.monotonic()
