"""The slot map of this process: read from the control database, kept while that is down, refreshed in between.

A shard refuses writes to slots that move, for a moment, and for good when they are gone. What was refused waits here
until the map is another one, or a moment has passed: meanwhile these slots have no owner for whoever writes.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable

from mqueue.core.errors import ControlUnavailable, ShardUnavailable
from shards.pools import Database
from shards.tasks import end

log = logging.getLogger(__name__)
REFRESH_EVERY_S, WHILE_MOVING_S, AT_FIRST_S = 2.0, 0.1, 0.2
LOOKS, LOOK_EVERY_S = 5, 0.02  # for a new map, after a refusal
NOWHERE = 1 << 20  # in the place of a shard's number
READ = (
    "SELECT version, owners, (SELECT identity FROM deployment), "
    "EXISTS (SELECT FROM slot_move WHERE finished_at IS NULL) FROM slot_map ORDER BY version DESC LIMIT 1"
)
Changed = Callable[[], None]


class SlotMap:
    def __init__(self, control: Database) -> None:
        self._control = control
        self._refreshing: asyncio.Task[None] | None = None
        self._holding: asyncio.Task[None] | None = None
        self.version = 0
        self.deployment: uuid.UUID | None = None
        self.held: frozenset[int] = frozenset()
        self._is_moving = False
        self._owners: tuple[int, ...] = ()
        self._owners_for_writers: tuple[int, ...] = ()
        self._listeners: list[Changed] = []

    async def open(self) -> None:
        with contextlib.suppress(ShardUnavailable):
            await self.refresh()
        self._refreshing = asyncio.create_task(self._keep_fresh(), name="refresh slot map")

    async def close(self) -> None:
        await end(self._refreshing)
        await end(self._holding)

    def owner(self, slot: int) -> int:
        """The number of the shard that owns the slot; while the slot is held, of none."""
        return self.owners[slot]

    @property
    def owners(self) -> tuple[int, ...]:
        """By slot, for those who write."""
        if not self._owners:
            raise ControlUnavailable("The slot map has not been read yet; try again", retry_after_s=1.0)
        return self._owners_for_writers

    def reader(self, slot: int) -> int:
        """The number of the shard that has the slot's rows; while they move, of the one that they leave."""
        if not self._owners:
            raise ControlUnavailable("The slot map has not been read yet; try again", retry_after_s=1.0)
        return self._owners[slot]

    def on_change(self, listener: Changed) -> None:
        self._listeners.append(listener)

    def hold(self, slots: frozenset[int]) -> "asyncio.Task[None]":
        """A shard has refused writes to these. The task ends when there is something to try."""
        self.held |= slots
        self._owners_for_writers = tuple(NOWHERE if n in self.held else owner for n, owner in enumerate(self._owners))
        if self._holding is None or self._holding.done():
            self._holding = asyncio.create_task(self._hold(), name="wait for slots that move")
        return self._holding

    async def refresh(self) -> None:
        async with self._control.connection() as connection:
            row = await (await connection.execute(READ)).fetchone()
        if row:
            self.deployment, self._is_moving = row[2], row[3]
        if row and row[0] != self.version:
            log.info("slot map: version %s", row[0])
            self.version, self._owners = row[0], tuple(row[1])
            self._release()
            for listener in self._listeners:
                listener()

    async def _hold(self) -> None:
        version = self.version
        for _ in range(LOOKS):
            await asyncio.sleep(LOOK_EVERY_S)
            with contextlib.suppress(ShardUnavailable):
                await self.refresh()
            if self.version != version:
                return
        self._release()  # perhaps the pause is over, and they have stayed

    def _release(self) -> None:
        self.held, self._owners_for_writers = frozenset(), self._owners

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(
                AT_FIRST_S if not self._owners else WHILE_MOVING_S if self._is_moving else REFRESH_EVERY_S
            )
            try:
                await self.refresh()
            except ShardUnavailable:
                continue
            except Exception:
                log.exception("slot map: cannot be read")
