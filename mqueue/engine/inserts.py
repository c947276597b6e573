"""Commit messages on one shard. Requests that come while a commit is under way share the next one."""

import asyncio
import datetime
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec
import psycopg

from mqueue.core import metrics
from mqueue.core.errors import ShardUnavailable, Undecided
from mqueue.core.messages import Message
from mqueue.engine.coalesce import Coalescer
from mqueue.engine.hot import Shard
from mqueue.hot import refs
from mqueue.hot.sets import Offer
from shards.arrays import Array, Bools, Byteas, Int2s, Int4s, Int8s, Jsonbs, Texts, Timestamps, array
from shards.partitions import with_partitions
from shards.pools import Database
from shards.sql import statement

# Any past time means now; one before the year 1 in UTC could be stored, and never be read again.
LONG_AGO = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
COLUMNS: dict[str, type[Array]] = {
    "id": Int8s,
    "topic": Int4s,
    "priority": Int2s,
    "at": Timestamps,
    "delay_ms": Int8s,
    "ttl_ms": Int8s,
    "is_json": Bools,
    "payload": Byteas,
    "headers": Jsonbs,
    "traceparent": Texts,
    "max_retries": Int2s,
    "retry": Jsonbs,
    "key": Texts,
    "producer": Texts,
    "beside": Texts,
}
AT, DELAY_MS, KEY, BESIDE = (list(COLUMNS).index(name) for name in ("at", "delay_ms", "key", "beside"))
FEW = 64  # messages that are offered without asking first
FLIGHTS = 4
LOAD = 1_000  # messages of one statement; a request with more goes alone
LOOKS = 5
NO_NUDGES: Mapping[int, int] = MappingProxyType({})
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    at: datetime.datetime
    keyed: frozenset[int]  # those with a key that were not there before


def row_of(number: int, topic: int, message: Message, producer: str, *, beside: bool) -> Row:
    """In the order of COLUMNS. Whether its key lies on its own shard."""
    return (
        number,
        topic,
        message.priority,
        message.deliver_after and max(message.deliver_after, LONG_AGO),
        message.delay_ms or None,
        message.ttl_ms,
        message.is_json,
        message.content,
        as_json(message.headers),
        message.traceparent,
        message.max_retries,
        as_json(message.retry),
        message.idempotency_key,
        producer,
        message.namespace if beside else None,
    )


def nudges_of(rows: Iterable[Row]) -> dict[int, int]:
    """By id, for rows of one commit, which all have its time, in the order in which they came. Where the ids of a topic
    descend, different processes have given them: a microsecond for each descent keeps the order."""
    last: dict[int, tuple[int, int]] = {}
    found = {}
    for number, topic, *_ in rows:
        before, nudge = last.get(topic, (0, 0))
        nudge += number < before
        last[topic] = number, nudge
        if nudge:
            found[number] = nudge
    return found


def offer_of(row: Row, now: datetime.datetime, nudge: int = 0) -> Offer:
    """Where the row stands in the order: the same due as the statement gave it."""
    number, topic, priority, at, delay_ms = row[:5]
    if delay_ms:
        at = now + datetime.timedelta(milliseconds=delay_ms)
    if nudge:
        nudged = now + datetime.timedelta(microseconds=nudge)
        at = max(at or nudged, nudged)
    if at is None or at <= now:
        return Offer(topic, 0, refs.write(priority, now, number, 0))
    due = at.astimezone(datetime.UTC)
    return Offer(topic, refs.microseconds(due), refs.write(priority, due, number, 0))


def _is_new(row: Row, committed: Committed) -> bool:
    return row[KEY] is None or row[0] in committed.keyed


class Inserts:
    def __init__(self, shard: Database, hot: Shard, window_ms: int, weights: Mapping[str, int]) -> None:
        self._shard, self._hot, self._window_ms = shard, hot, window_ms
        self._seconds = metrics.COMMIT_SECONDS.labels(shard.number)
        self._commits: Coalescer[list[Row], Committed | Exception] = Coalescer(
            self._commit_all, most=LOAD, flights=FLIGHTS, name=f"commits on {shard.name}", weights=weights
        )

    async def add(self, rows: list[Row], owner: str) -> Committed:
        done = await self._commits.submit(rows, len(rows), owner)
        if isinstance(done, Exception):
            raise done
        return done

    async def _commit_all(self, parts: Sequence[list[Row]]) -> list[Committed | Exception]:
        """One bad message must not spoil its neighbours: what cannot be added together is added in halves."""
        try:
            done = await self._commit([row for part in parts for row in part])
        except psycopg.Error as error:
            if len(parts) == 1:
                return [error]
            half = len(parts) // 2
            return await self._commit_all(parts[:half]) + await self._commit_all(parts[half:])
        except ShardUnavailable as error:
            if isinstance(error, Undecided):
                self._hot.owe({row[1] for part in parts for row in part})
            return [error] * len(parts)
        await offer_rows(self._hot, [row for part in parts for row in part if _is_new(row, done)], done.at)
        return [done] * len(parts)

    async def _commit(self, rows: list[Row]) -> Committed:
        columns = columns_of(rows, self._window_ms)
        pid = 0

        async def insert() -> Committed:
            nonlocal pid
            async with self._shard.connection() as connection:
                pid = connection.info.backend_pid
                cursor = await connection.execute(statement("enqueue"), columns)
                found: Any = await cursor.fetchone()
                return Committed(found[0], frozenset(found[1]))

        try:
            work = with_partitions(self._shard, days_around(rows), insert)
            return await metrics.timed(self._seconds, work)
        except Undecided:
            if done := await self._look_whether_committed(rows, pid):
                return done
            raise

    async def _look_whether_committed(self, rows: list[Row], pid: int) -> Committed | None:
        """The connection was lost before the answer came. None: it cannot be told."""
        plain = {row[0] for row in rows if row[KEY] is None or row[BESIDE] is not None}
        for _ in range(LOOKS if plain else 0):
            try:
                async with self._shard.connection() as connection:
                    session: Any = await (await connection.execute(statement("session"), {"pid": pid})).fetchone()
                    is_direct = session[1] == connection.info.backend_pid
                    cursor = await connection.execute(statement("committed"), {"ids": [row[0] for row in rows]})
                    there: dict[int, datetime.datetime] = dict(await cursor.fetchall())
            except ShardUnavailable:
                return None
            if there.keys() & plain:  # all of them, since they were one transaction
                added_at = there[next(iter(there.keys() & plain))]
                return Committed(added_at, frozenset(number for number, at in there.items() if at == added_at))
            if is_direct and not session[0]:
                raise ShardUnavailable(f"{self._shard.name} lost the connection before it added anything")
            await asyncio.sleep(0.1)
        return None


def columns_of(
    rows: list[Row], window_ms: int = 0, nudges: Mapping[int, int] = NO_NUDGES
) -> dict[str, Array | int | None]:
    """As the statement takes them. The dedupe window counts for keys that lie beside their messages."""
    by_column = zip(*rows, strict=True)
    columns = {name: array(kind, values) for (name, kind), values in zip(COLUMNS.items(), by_column, strict=True)}
    nudge = array(Int4s, [nudges.get(row[0], 0) for row in rows]) if nudges else None
    return columns | {"window_ms": window_ms, "nudge": nudge}


async def offer_rows(
    hot: Shard, rows: list[Row], now: datetime.datetime, nudges: Mapping[int, int] = NO_NUDGES
) -> None:
    """To the heads, after their commit at that time."""
    if nudges:
        await hot.offer([offer_of(row, now, nudges.get(row[0], 0)) for row in rows])
        return
    if len(rows) <= FEW:
        await hot.offer([offer_of(row, now) for row in rows])
        return
    by_topic: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_topic[row[1]].append(row)
    least = {topic: _least(part, now) for topic, part in by_topic.items()}
    await hot.offer_many(least, lambda topic: [offer_of(row, now) for row in by_topic[topic]])


def _least(rows: list[Row], now: datetime.datetime) -> tuple[str, int]:
    """The first ref of those that are due, and the first due time of the rest."""
    urgent = min((row for row in rows if _is_due(row, now)), key=lambda row: (row[2], row[0]), default=None)
    dues = [offer_of(row, now).due_us for row in rows if not _is_due(row, now)]
    return (offer_of(urgent, now).ref if urgent else ""), min(dues, default=0)


def _is_due(row: Row, now: datetime.datetime) -> bool:
    return not row[DELAY_MS] and (row[AT] is None or row[AT] <= now)


def days_around(rows: list[Row]) -> Iterator[datetime.date]:
    """Asked for when a partition is missing. A past time means now; a day on either side: midnight is the server's."""
    now = datetime.datetime.now(datetime.UTC)
    for row in rows:
        wish = row[AT] or now + datetime.timedelta(milliseconds=row[DELAY_MS] or 0)
        day = max(wish, now).astimezone(datetime.UTC).date()
        yield from (day + datetime.timedelta(n) for n in (-1, 0, 1))


def as_json(value: object) -> str | None:
    return msgspec.json.encode(value).decode() if value else None
