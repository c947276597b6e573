"""Message ids: `sequence * 1024 + slot`, so an id alone finds its shard, and a slot that moves never repeats one.

The sequence is one for the whole deployment. A process takes it in blocks from the control database, one ahead of
need, so that an outage there is not felt while a block lasts.
"""

import asyncio

from mqueue.core.errors import ControlUnavailable, ShardUnavailable
from shards.pools import Database
from shards.routing import SLOTS
from shards.tasks import end

BLOCK = 1 << 18  # 2^43 sequence numbers last for 33 million blocks
NEXT_BLOCK = "SELECT nextval('message_id_block')"


def slot_of_id(message_id: int) -> int:
    return message_id % SLOTS


class Ids:
    def __init__(self, control: Database) -> None:
        self._control = control
        self._next = self._end = 0
        self._spare: int | None = None
        self._fetching: asyncio.Task[bool] | None = None

    async def take(self, count: int) -> int:
        """The first of `count` sequence numbers in a row, all ours."""
        while self._end - self._next < count:
            if self._spare is None:
                if not await asyncio.shield(self._fetch_soon()):
                    raise ControlUnavailable(
                        "No message ids are left, and the control database is down", retry_after_s=1.0
                    )
                continue  # somebody else who waited may have been quicker
            self._next, self._spare = self._spare * BLOCK, None
            self._end = self._next + BLOCK
        first, self._next = self._next, self._next + count
        if self._spare is None:
            self._fetch_soon()
        return first

    async def close(self) -> None:
        await end(self._fetching)

    def _fetch_soon(self) -> "asyncio.Task[bool]":
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._fetch(), name="fetch a block of ids")
        return self._fetching

    async def _fetch(self) -> bool:
        try:
            async with self._control.connection() as connection:
                row = await (await connection.execute(NEXT_BLOCK)).fetchone()
        except ShardUnavailable:
            return False  # asked again with the next message
        assert row
        self._spare = int(row[0])
        return True
