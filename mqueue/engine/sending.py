"""See to it that what a log has and its shard has not is in the buffer in Redis, whatever Redis forgets.

The flusher takes it from there. The mark, how far the shard has committed the log, is read from PostgreSQL alone: it
says from where to push again, and what the log may forget.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Protocol
from uuid import UUID

from mqueue.core.errors import ShardUnavailable
from mqueue.engine.marks import read_marks
from mqueue.engine.portions import Portions, Run
from mqueue.hot.buffer import Buffer
from mqueue.hot.sets import ERRORS
from mqueue.wal import frames
from mqueue.wal.frames import Frame
from shards.pools import Database

log = logging.getLogger(__name__)


class Lost(Exception):
    """Redis has forgotten again what was just pushed."""


TROUBLE = (*ERRORS, Lost)


class Readable(Protocol):
    """A log."""

    def read(self, first: int) -> Iterator[Frame]: ...


class Sender:
    def __init__(self, writer: UUID, readable: Readable, shard: Database, buffer: Buffer) -> None:
        self._writer, self._log, self._shard, self._buffer = writer, readable, shard, buffer
        self._seed = frames.seed_of(writer)
        self._turn = asyncio.Lock()
        self.last = 0  # the number of the newest record in the log
        self.mark = 0
        self._pushed = 0

    @property
    def is_behind(self) -> bool:
        """A push has failed, and was not made good yet."""
        return self._pushed < self.last

    @property
    def is_done(self) -> bool:
        return self.mark >= self.last

    async def push(self, first: int, last: int, data: bytes) -> None:
        """What was just logged. Raises TROUBLE."""
        async with self._turn:
            have = await self._buffer.push(self._writer, first, last, data)
            if have < last:
                await self._push_again(have)
            self._pushed = max(self._pushed, last)

    async def tend(self) -> None:
        """Look whether the buffer still has what the shard has not, and push it again where not. Raises TROUBLE."""
        await self.read_mark()
        if self.is_done:
            self._pushed = self.last
            return
        async with self._turn:
            last = self.last
            have, has_entries = await self._buffer.look(self._writer)
            if not has_entries and await self._has_lost(have):
                await self._buffer.forget([self._writer])
                have = 0
            if have < last:
                await self._push_again(have)
            self._pushed = max(self._pushed, last)

    async def retire(self) -> None:
        await self._buffer.forget([self._writer])

    async def read_mark(self) -> None:
        with contextlib.suppress(ShardUnavailable):
            mark = (await read_marks(self._shard, [self._writer]))[self._writer]
            if mark < self.mark:
                log.error("%s has gone back to a time before it had record %d", self._shard.name, self.mark)
                await self._buffer.forget([self._writer])
            self.mark = mark

    async def _has_lost(self, have: int) -> bool:
        """It is empty: either all that it had is committed, which is so by now, or it is gone."""
        await self.read_mark()
        return self._shard.is_up and self.mark < have

    async def _push_again(self, have: int) -> None:
        log.warning("the buffer of %s misses what follows record %d; pushing again", self._shard.name, have)
        known = max(have, self.mark)
        runs, expected = self._runs(known + 1), known + 1
        while run := await asyncio.to_thread(next, runs, None):
            first, last, data = run
            if first > expected:
                log.error("%s has no records %d to %d in its log any more", self._writer.hex, expected, first - 1)
            expected = last + 1
            is_base = have < first - 1  # before it, all is committed, or missing in the log
            if await self._buffer.push(self._writer, first, last, data, is_base=is_base) < last:
                raise Lost
            have = last

    def _runs(self, first: int) -> Iterator[Run]:
        portions = Portions()
        for frame in self._log.read(first):
            portions.add(frame.number, frames.write(self._seed, frame.number, frame.body))
            yield from portions.take(whole_only=True)
        yield from portions.take()
