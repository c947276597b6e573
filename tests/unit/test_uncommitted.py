"""Room for what lies in logs is given up when that is committed, whatever is held meanwhile."""

import asyncio
from typing import Any

import pytest

from mqueue.engine import uncommitted
from mqueue.engine.levels import STORED, Room
from mqueue.engine.uncommitted import Uncommitted


class Logs:
    """All that they have is committed."""

    def last(self, shard: Any) -> int:
        return 1

    def is_committed(self, shard: Any, number: int) -> bool:
        return True


class Busy:
    """While the first room is given up, another is held, of a shard that was not seen before."""

    def __init__(self) -> None:
        self.settled: list[int] = []
        self.held: Any = None

    async def settle(self, room: Room, added: int) -> None:
        if not self.settled:
            self.held.hold(Room(STORED, "b", 2), {"another shard": 2})
        self.settled.append(added)
        await asyncio.sleep(0)


async def test_room_that_is_held_while_other_room_is_given_up_is_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uncommitted, "LOOK_S", 0.01)
    levels: Any = Busy()
    logs: Any = Logs()
    levels.held = Uncommitted(levels, logs)
    shards: Any = {"shard": 1}
    levels.held.hold(Room(STORED, "a", 1), shards)
    async with asyncio.timeout(5):
        while sum(levels.settled) < 3:
            assert not levels.held._looking.done()
            await asyncio.sleep(0.01)
    await levels.held.close()
