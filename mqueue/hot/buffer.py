"""One shard's buffer: a stream of what was taken for buffered topics and is not committed yet.

Each writer's records enter it in their order and without a gap, which the script sees to; so whatever Redis forgets, a
writer hears of it with its next push, or when it looks.
"""

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from redis.asyncio import Redis

from mqueue.hot import keys
from mqueue.hot.building import OWNER_MS, RENEW
from mqueue.hot.connection import AWAY_S
from mqueue.hot.sets import ERRORS, script


@dataclass(frozen=True, slots=True)
class Entry:
    """Some records of one writer, from number to number. Of a base, nothing that comes before is missing."""

    id: bytes
    writer: UUID
    first: int
    last: int
    is_base: bool
    data: bytes


class Buffer:
    def __init__(self, client: "Redis", shard: int) -> None:
        self._client, self.shard = client, shard
        self._keys = [keys.buffer(shard), keys.pushed(shard), keys.flushed(shard)]
        self._push, self._flushed = (client.register_script(script(name)) for name in ("push", "flushed"))
        self._renew = client.register_script(RENEW)
        self._me = secrets.token_hex(8)
        self._away_until = self._renew_at = 0.0

    @property
    def is_away(self) -> bool:
        """It has just failed."""
        return time.monotonic() < self._away_until

    async def push(self, writer: UUID, first: int, last: int, data: bytes, *, is_base: bool = False) -> int:
        """Up to which number it has had them: `last`, unless something before `first` is missing."""
        arguments: list[Any] = [writer.hex, first, last, int(is_base), data]
        try:
            return int(await self._push(keys=self._keys, args=arguments))
        except ERRORS:
            self._away_until = time.monotonic() + AWAY_S
            raise

    async def look(self, writer: UUID) -> tuple[int, bool]:
        """Up to which number it has had the writer's records, and whether there is anything in it."""
        pushed: Any = await self._client.hget(self._keys[1], writer.hex)
        return int(pushed or 0), await self._client.xlen(self._keys[0]) > 0

    async def forget(self, writers: Iterable[UUID]) -> None:
        """They are done, or shall begin anew."""
        names = [writer.hex for writer in writers]
        await self._client.hdel(self._keys[1], *names)
        await self._client.hdel(self._keys[2], *names)

    async def read(self, after: bytes, most: int, wait_s: float) -> list[Entry]:
        """The next entries. Waits a moment where there are none."""
        wait_ms = int(wait_s * 1000) or None
        found: Any = await self._client.xread({self._keys[0]: after}, count=most, block=wait_ms)
        return [_entry(number, fields) for _, entries in found or () for number, fields in entries]

    async def flushed(self, marks: Mapping[UUID, int], entries: Sequence[bytes]) -> None:
        """Entries are committed, and their writers' records so far."""
        pairs = [part for writer, mark in marks.items() for part in (writer.hex, mark)]
        await self._flushed(keys=self._keys, args=[len(marks), *pairs, *entries])

    async def drop(self, entry: Entry) -> None:
        """It cannot be read: its writer shall push it again."""
        await self._client.xdel(self._keys[0], entry.id)
        await self.forget([entry.writer])

    async def depth(self) -> int:
        """How many messages are in it."""
        pushed: Any = await self._client.hgetall(self._keys[1])
        flushed: Any = await self._client.hgetall(self._keys[2])
        return sum(max(0, int(number) - int(flushed.get(writer, 0))) for writer, number in pushed.items())

    async def own(self) -> bool:
        """Whether we are the shard's flusher for the next moment. A second one would do no harm, only work."""
        now, key = time.monotonic(), keys.flusher(self.shard)
        if now < self._renew_at:
            return True
        if await self._client.set(key, self._me, nx=True, px=OWNER_MS) or await self._renewed(key):
            self._renew_at = now + OWNER_MS / 3000
            return True
        return False

    async def disown(self) -> None:
        """So that a standby need not wait."""
        key, self._renew_at = keys.flusher(self.shard), 0.0
        if await self._renewed(key):
            await self._client.delete(key)

    async def _renewed(self, key: str) -> bool:
        return bool(await self._renew(keys=[key], args=[self._me, OWNER_MS]))


def _entry(number: bytes, fields: Mapping[bytes, bytes]) -> Entry:
    writer = UUID(hex=fields[b"w"].decode())
    return Entry(number, writer, int(fields[b"f"]), int(fields[b"l"]), fields[b"b"] == b"1", fields[b"d"])
