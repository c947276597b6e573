"""Commit what lies in a shard's buffer, each writer's records in their order, with the mark that says how far.

The mark is raised in the transaction that adds the messages, from the very value that was read. So it does not matter
how many flushers there are, which of them was stopped and for how long, or how often a record was pushed: of two that
would commit the same, one fails, and what lies below a mark is passed over.
"""

import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import msgspec
import psycopg
from psycopg import AsyncConnection, errors

from mqueue.core import metrics
from mqueue.core.errors import ShardUnavailable, SlotMoved, Undecided
from mqueue.engine import records
from mqueue.engine.hot import Hot
from mqueue.engine.inserts import columns_of, days_around, nudges_of, offer_rows
from mqueue.engine.marks import read_marks
from mqueue.engine.rescue import Rescue
from mqueue.engine.topics import Topics
from mqueue.hot.buffer import Entry
from mqueue.wal import frames
from shards.cluster import Cluster
from shards.partitions import with_partitions
from shards.pools import Database
from shards.sql import statement

log = logging.getLogger(__name__)
ENTRIES, ROWS, BYTES = 200, 2_000, 4 << 20  # of one look at most, and of one commit
STRANDED_S = 0.5  # until another try
START = b"0-0"
ITS_OWN_FAULT = (psycopg.DataError, psycopg.IntegrityError, errors.ProgramLimitExceeded, msgspec.MsgspecError)


class Outrun(Exception):
    """Another flusher has raised a mark meanwhile."""


class Stranded(Exception):
    """Records of these writers belong to another shard by now, and that does not take them. Others need not wait."""

    def __init__(self, writers: set[UUID]) -> None:
        super().__init__()
        self.writers = writers


@dataclass(frozen=True, slots=True)
class Item:
    """One record, and where it stands in its writer's log."""

    writer: UUID
    number: int
    body: bytes = field(repr=False)


@dataclass(slots=True)
class Load:
    """What is committed together, and the entries that are done when it is."""

    items: list[Item] = field(default_factory=list)
    done: list[bytes] = field(default_factory=list)
    writers: set[UUID] = field(default_factory=set)
    size: int = 0

    def fits(self, items: Sequence[Item], rows: int) -> bool:
        return not self.items or (len(self.items) + len(items) <= rows and self.size < BYTES)

    def add(self, entry: Entry, items: Sequence[Item]) -> None:
        self.items += items
        self.done.append(entry.id)
        self.writers.add(entry.writer)
        self.size += len(entry.data)


class Flushing:
    def __init__(self, shard: Database, cluster: Cluster, hot: Hot, topics: Topics) -> None:
        assert shard.number is not None
        self._shard, self._cluster, self._topics = shard, cluster, topics
        self._heads, self._hot, self._buffer = hot, hot[shard], hot.buffer(shard.number)
        self._rescue = Rescue(cluster, hot, topics)
        self._seconds = metrics.COMMIT_SECONDS.labels(shard.number)
        self._marks: dict[UUID, int] = {}
        self._rows, self._count = ROWS, 16
        self._after = START
        self._missing: dict[UUID, int] = {}  # what was told of whom
        self._stranded: dict[UUID, float] = {}  # writers, and until when they are passed over

    @property
    def is_held(self) -> bool:
        """Something in the buffer waits for what is missing before it; we look at what is behind it."""
        return self._after != START

    async def flush(self, wait_s: float) -> int:
        """Commit what is there; how many records were read. Waits so long for the first."""
        entries = await self._read(0 if self.is_held else wait_s)
        self._after = START
        left, is_any_done = entries, False
        while left:
            load, rest = await self._load(left)
            if load.done:
                try:
                    await self._commit_load(load)
                except Stranded as stranded:
                    self._pass_over(stranded.writers)
                    continue  # without theirs
                is_any_done = True
            left = rest
        if entries and not is_any_done:
            self._after = entries[-1].id  # what is missing may stand behind
        return sum(entry.last - entry.first + 1 for entry in entries)

    async def _read(self, wait_s: float) -> list[Entry]:
        """Entries are small where few send, and large where many do: of these fewer at a time."""
        count, self._count = self._count, max(1, self._count // 2)  # in case that it is too much for Redis' time
        entries = await self._buffer.read(self._after, count, wait_s)
        if sum(len(entry.data) for entry in entries) < 2 * BYTES:
            self._count = min(ENTRIES, count * 2) if len(entries) == count else count
        return entries

    async def _commit_load(self, load: Load) -> None:
        try:
            await self._commit_all(load.items)
        except (ShardUnavailable, Outrun):
            self._marks.clear()  # it may have been done, by us or somebody else
            self._rows = max(1, self._rows // 2)  # perhaps it was too much for one statement's time
            raise
        self._rows = min(ROWS, self._rows * 2)
        await self._buffer.flushed({writer: self._marks[writer] for writer in load.writers}, load.done)

    async def _load(self, entries: list[Entry]) -> tuple[Load, list[Entry]]:
        """What can be committed together, and what is left. Those that have to wait are passed over."""
        await self._know_marks(entries)
        now = time.monotonic()
        self._stranded = {writer: until for writer, until in self._stranded.items() if until > now}
        load, reached = Load(), dict(self._marks)
        for position, entry in enumerate(entries):
            mark = reached[entry.writer]
            if entry.writer in self._stranded:
                continue
            if entry.first > mark + 1 and not entry.is_base:
                self._tell_missing(entry.writer, mark + 1)
                continue
            items = self._items(entry)
            if items is None:
                log.error("records %d to %d of writer %s are unreadable", entry.first, entry.last, entry.writer.hex)
                await self._buffer.drop(entry)
                continue
            if entry.first <= self._marks[entry.writer]:
                await self._make_cold(item for item in items if item.number <= self._marks[item.writer])
            items = [item for item in items if item.number > mark]
            if not load.fits(items, self._rows):
                return load, entries[position:]
            load.add(entry, items)
            reached[entry.writer] = max(mark, entry.last)
        return load, []

    def _tell_missing(self, writer: UUID, number: int) -> None:
        if self._missing.get(writer) != number:  # once, and not with every look
            self._missing[writer] = number
            log.warning("records of writer %s wait for %d, which is missing", writer.hex, number)

    def _pass_over(self, writers: set[UUID]) -> None:
        for writer in writers - self._stranded.keys():
            log.warning("records of writer %s wait for the shard to which their slot has moved", writer.hex)
        self._stranded |= dict.fromkeys(writers, time.monotonic() + STRANDED_S)

    async def _make_cold(self, committed: Iterable[Item]) -> None:
        """Whoever has committed these may have died before they were offered, and what is committed next would come
        before them."""
        topics: dict[Database, set[int]] = defaultdict(set)
        for item in committed:
            with contextlib.suppress(msgspec.MsgspecError):  # then it was set aside
                record = records.decode(item.body)
                topics[self._cluster.shard_of_id(record.id)].add(record.topic_number)
        for shard, numbers in topics.items():
            await self._heads[shard].cool(numbers)

    async def _know_marks(self, entries: Sequence[Entry]) -> None:
        """Of writers that are new to us; and of those that seem to miss something, since another flusher may have been
        at work, and have committed that, since we knew theirs."""
        first = {entry.writer: entry for entry in reversed(entries)}
        doubtful = {
            writer
            for writer, entry in first.items()
            if writer not in self._marks or (entry.first > self._marks[writer] + 1 and not entry.is_base)
        }
        if doubtful:
            self._marks |= await read_marks(self._shard, doubtful)

    def _items(self, entry: Entry) -> list[Item] | None:
        """None where it is not what was pushed."""
        scan = frames.scan(frames.seed_of(entry.writer), entry.data)
        numbers = [frame.number for frame in scan.frames]
        if not scan.is_whole or numbers != list(range(entry.first, entry.last + 1)):
            return None
        return [Item(entry.writer, frame.number, frame.body) for frame in scan.frames]

    async def _commit_all(self, items: Sequence[Item]) -> None:
        """One bad record must not hold up the others: what cannot be committed together is committed in halves."""
        if not items:
            return
        try:
            await self._commit(items)
        except ITS_OWN_FAULT as error:
            if len(items) == 1:
                await self._refuse(items[0], error)
                return
            half = len(items) // 2
            await self._commit_all(items[:half])
            await self._commit_all(items[half:])
        except psycopg.Error as error:  # a column is missing, or a right: no record is set aside for that
            log.exception("%s cannot take what is buffered for it", self._shard.name)
            raise ShardUnavailable(f"{self._shard.name} cannot take what is buffered for it") from error

    async def _commit(self, items: Sequence[Item]) -> None:
        found = [records.decode(item.body) for item in items]
        strays = {record.id for record in found if self._cluster.shard_of_id(record.id) is not self._shard}
        if strays:  # their slot has moved: they are added where it is now, before we pass them
            try:
                await self._rescue.add(record for record in found if record.id in strays)
            except SlotMoved:
                raise  # again: in a moment we know where to
            except ShardUnavailable as error:
                pairs = zip(items, found, strict=True)
                raise Stranded({item.writer for item, record in pairs if record.id in strays}) from error
            # Not by a second look at the map: what has left meanwhile is refused here, and a stray in the next round.
            found = [record for record in found if record.id not in strays]
        await self._topics.note_on(self._shard, records.names(found))
        rows = [record.row() for record in found]
        nudges = nudges_of(rows)

        async def insert() -> Any:
            async with self._marking(items) as connection:
                columns = columns_of(rows, nudges=nudges) if rows else {}
                return rows and await (await connection.execute(statement("enqueue"), columns)).fetchone()

        try:
            done = await metrics.timed(self._seconds, with_partitions(self._shard, days_around(rows), insert))
        except Undecided:
            self._hot.owe({record.topic_number for record in found})
            raise
        self._marks |= _reached(items)
        if done:
            metrics.ENQUEUED.count(found)
            await offer_rows(self._hot, rows, done[0], nudges)

    async def _refuse(self, item: Item, error: Exception) -> None:
        """Set one aside that cannot be committed. One that is there already, however it came, is passed."""
        is_there = isinstance(error, errors.UniqueViolation)
        async with self._marking([item]) as connection:
            if not is_there:
                row = {"writer": item.writer, "number": item.number, "error": str(error), "record": item.body}
                await connection.execute(statement("refuse_buffered"), row)
        self._marks |= _reached([item])
        if is_there:
            log.warning("record %d of writer %s was there already", item.number, item.writer.hex)
        else:
            metrics.REFUSED.inc()
            log.error("record %d of writer %s is set aside: %s", item.number, item.writer.hex, error)

    @contextlib.asynccontextmanager
    async def _marking(self, items: Sequence[Item]) -> AsyncIterator[AsyncConnection[Any]]:
        """A transaction that raises the marks to what these items make them, or fails."""
        reached = _reached(items)
        writers = list(reached)
        marks = {
            "writers": writers,
            "previous": [self._marks[writer] for writer in writers],
            "reached": [reached[writer] for writer in writers],
        }
        async with self._shard.connection() as connection, connection.transaction():
            await connection.execute(statement("be_quick"))
            try:
                raised = (await connection.execute(statement("advance_marks"), marks)).rowcount
            except errors.UniqueViolation as error:
                raise Outrun from error
            if raised < len(writers):
                raise Outrun
            yield connection


def _reached(items: Sequence[Item]) -> dict[UUID, int]:
    """The last number of each writer."""
    return {item.writer: item.number for item in items}
