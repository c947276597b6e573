"""The slot map of this process: read from the control database, kept while that is down, refreshed in between."""

import asyncio
import contextlib
import logging
import uuid

from mqueue.core.errors import ControlUnavailable, ShardUnavailable
from shards.pools import Database
from shards.tasks import end

log = logging.getLogger(__name__)
REFRESH_EVERY_S = 2.0
READ = "SELECT version, owners, (SELECT identity FROM deployment) FROM slot_map ORDER BY version DESC LIMIT 1"


class SlotMap:
    def __init__(self, control: Database) -> None:
        self._control = control
        self._refreshing: asyncio.Task[None] | None = None
        self.version = 0
        self.deployment: uuid.UUID | None = None
        self._owners: tuple[int, ...] = ()

    async def open(self) -> None:
        with contextlib.suppress(ShardUnavailable):
            await self.refresh()
        self._refreshing = asyncio.create_task(self._keep_fresh(), name="refresh slot map")

    async def close(self) -> None:
        await end(self._refreshing)

    def owner(self, slot: int) -> int:
        """The number of the shard that owns the slot."""
        if not self._owners:
            raise ControlUnavailable("The slot map has not been read yet; try again", retry_after_s=1.0)
        return self._owners[slot]

    async def refresh(self) -> None:
        async with self._control.connection() as connection:
            row = await (await connection.execute(READ)).fetchone()
        if row:
            self.deployment = row[2]
        if row and row[0] != self.version:
            log.info("slot map: version %s", row[0])
            self.version, self._owners = row[0], tuple(row[1])

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_EVERY_S if self._owners else 0.2)
            try:
                await self.refresh()
            except ShardUnavailable:
                continue
            except Exception:
                log.exception("slot map: cannot be read")
