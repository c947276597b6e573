"""Take messages of buffered topics: into this process's log for a shard, synced, and into the shard's buffer in Redis.

Requests that come while the disk is syncing share the next sync.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mqueue.core import metrics
from mqueue.core.errors import BufferFull, MqueueError, ShardUnavailable, Undecided
from mqueue.engine.coalesce import Coalescer
from mqueue.engine.portions import Portions, Run
from mqueue.engine.records import Record, encode
from mqueue.engine.sending import TROUBLE, Sender
from mqueue.hot.buffer import Buffer
from mqueue.wal import frames
from mqueue.wal.living import Broken, LivingLog
from mqueue.wal.segments import Header
from shards.pools import Database

log = logging.getLogger(__name__)
LOAD = 4 << 20  # bytes of payload of one sync
SEGMENTS = 8  # of a log at its limit, at least: it shrinks by whole ones
RETRY_AFTER_S = 1.0
DRAIN_EVERY_S = 0.05
AWAY = "Redis, which buffers this topic, cannot take messages now; try again"
DOUBT = "Redis, which buffers this topic, did not answer; the message is logged, and comes when it does"
FULL = "The write-ahead log of this API process for {} is full; try again"
BROKEN = "The write-ahead log of this API process is broken; it has to be started again"
Open = Callable[[int], Awaitable[tuple[LivingLog, Header]]]


class ShardLog:
    def __init__(self, shard: Database, buffer: Buffer, limit: int, open_: Open) -> None:
        self._shard, self._buffer, self._limit, self._open = shard, buffer, limit, open_
        self._thread = ThreadPoolExecutor(1, f"log of {shard.name}")
        self._takes: Coalescer[Sequence[Record], MqueueError | None] = Coalescer(
            self._take_all, most=LOAD, name=f"log of {shard.name}"
        )
        self._log: LivingLog | None = None
        self._sender: Sender | None = None
        self._seed = self._last = 0
        self._is_broken = self._is_full = False
        self._disk_trouble = ""

    @property
    def trouble(self) -> str:
        """What is wrong with the log, in words that may be shown to anybody."""
        if self._is_broken:
            return BROKEN
        is_full = self._is_full and self._log and self._log.size > self._limit // 2
        return FULL.format(self._shard.name) if is_full else self._disk_trouble

    @property
    def last(self) -> int:
        return self._last

    @property
    def mark(self) -> int:
        """Up to here all is committed, as far as is known."""
        return self._sender.mark if self._sender else 0

    @property
    def is_done(self) -> bool:
        """All that was logged is committed. Of a log that is broken nobody knows: that is left to who inherits it."""
        return self._sender is None or (self._sender.is_done and not self._is_broken)

    def take(self, records: Sequence[Record]) -> "asyncio.Future[MqueueError | None]":
        """Why they were not taken, or None. They stand in line when this returns."""
        return self._takes.enter(records, sum(len(record.payload) for record in records))

    async def drain(self) -> None:
        """Until all that stands in line now, and all that was logged before, is committed."""
        if self._sender is None:
            return
        await self._takes.submit([])  # who came before us has his number then
        last = self._last
        while self._sender.mark < last:
            await self._sender.read_mark()
            await asyncio.sleep(DRAIN_EVERY_S)

    async def tend(self) -> None:
        if self._log and self._sender and not self._sender.is_done:
            await self._sender.tend()
            await self._in_thread(self._log.forget, self._sender.mark)

    async def close(self) -> None:
        if self._log and self._sender:
            await self._in_thread(self._log.close)
            if self._sender.is_done:
                await self._sender.retire()
        self._thread.shutdown(wait=False)

    async def _take_all(self, parts: Sequence[Sequence[Record]]) -> Sequence[MqueueError | None]:
        refusal, answers = await self._refusal(), list[MqueueError | None]()
        if refusal is None:
            answers, runs = self._fit(parts)
            refusal = await self._log_and_push(runs) if runs else None
            self._is_full = any(answers)
        return [answer or refusal for answer in answers or [None] * len(parts)]

    async def _refusal(self) -> MqueueError | None:
        """Why nothing can be taken, before it is tried: what is logged is not refused any more."""
        if self._sender is None:
            try:
                self._log, header = await self._open(self._shard.number or 0)
            except OSError as error:
                return self._unwritable(error)
            except MqueueError as error:
                return error
            self._seed = frames.seed_of(header.writer)
            self._sender = Sender(header.writer, self._log, self._shard, self._buffer)
        if self._is_broken:
            return ShardUnavailable(BROKEN, retry_after_s=RETRY_AFTER_S)
        if self._buffer.is_away or self._sender.is_behind:
            return ShardUnavailable(AWAY, retry_after_s=RETRY_AFTER_S)
        return None

    def _fit(self, parts: Sequence[Sequence[Record]]) -> tuple[list[MqueueError | None], list[Run]]:
        """As many requests as there is room for, and their records in portions of what is pushed at once."""
        assert self._log
        room = self._limit - self._log.size
        answers: list[MqueueError | None] = []
        portions = Portions(self._last)
        for part in parts:
            first = portions.last + 1
            written = [frames.write(self._seed, number, encode(one)) for number, one in enumerate(part, first)]
            size = sum(map(len, written))
            if size > room:
                answers.append(BufferFull(FULL.format(self._shard.name), retry_after_s=RETRY_AFTER_S))
                continue
            room -= size
            for frame in written:
                portions.add(portions.last + 1, frame)
            answers.append(None)
        return answers, portions.take()

    async def _log_and_push(self, runs: Sequence[Run]) -> MqueueError | None:
        assert self._log
        assert self._sender
        last = runs[-1][1]
        try:
            append = self._in_thread(self._log.append, b"".join(data for *_, data in runs), last)
            await metrics.timed(metrics.WAL_SECONDS, append)
        except Broken as error:
            self._is_broken = True
            log.critical("the write-ahead log of %s is broken: %s", self._shard.name, error)
            return Undecided(BROKEN, retry_after_s=RETRY_AFTER_S)
        except OSError as error:
            return self._unwritable(error)
        self._disk_trouble = ""
        self._last = self._sender.last = last
        try:
            for run in runs:
                await self._sender.push(*run)
        except TROUBLE as error:
            log.warning("the buffer of %s cannot take messages: %s", self._shard.name, type(error).__name__)
            return Undecided(DOUBT, retry_after_s=RETRY_AFTER_S)
        return None

    def _unwritable(self, error: OSError) -> MqueueError:
        log.error("the write-ahead log of %s cannot be written: %s", self._shard.name, error)
        self._disk_trouble = f"The write-ahead log cannot be written: {error.strerror or type(error).__name__}"
        return ShardUnavailable(self._disk_trouble, retry_after_s=RETRY_AFTER_S)

    def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        return asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
