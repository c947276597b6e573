"""Search dead letters, from those that died last downward, in a time that does not depend on how many there are.

A search looks at portions of letters until it has found enough or its time is over. What it answers then is honest: the
place to go on from, whether or not anything was found up to there.
"""

import asyncio
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from psycopg import errors

from mqueue.core.errors import ShardUnavailable
from mqueue.core.messages import DeadLetter
from mqueue.core.searches import TOP, DeadFilter, Place
from mqueue.engine.contents import Page
from mqueue.engine.dead import letter_of
from shards.cluster import Cluster
from shards.pools import Database
from shards.sql import statement

BUDGET_S = 1.5
LIMIT_MS = 1_000  # of one statement
FIRST, FIRST_TEXT, MOST = 1_000, 200, 20_000  # letters of a portion; they grow while they are quick
QUICK_S = 0.1
AT_ONCE = 2  # searches on a shard, of one process: the queue comes first
MICROSECOND = timedelta(microseconds=1)
Row = tuple[Any, ...]  # id, topic, priority, is_json, payload, headers, attempts, error, reason, enqueued_at, died_at


@dataclass(frozen=True, slots=True)
class Found:
    rows: Sequence[Row]
    next: Place | None  # None: there is nothing below
    seen: int  # about how many letters it looked at
    is_whole: bool  # False: it stopped because its time was over, and not because it had found enough


class _Part(NamedTuple):
    """What one shard answers, and the place down to which it has looked: None where that is the end."""

    rows: list[Row]
    down_to: Place | None
    seen: int
    in_time: bool


class DeadSearch:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._turns = {shard: asyncio.Semaphore(AT_ONCE) for shard in cluster.shards}

    async def page(
        self, namespace: str, wanted: DeadFilter, after: Place, limit: int
    ) -> tuple[list[DeadLetter], Found]:
        """Letters as they are answered, at most 16 MiB of them."""
        found = await self.search(namespace, wanted, after, limit, whole=True)
        page = Page(limit)
        rows = [row for row in found.rows if page.takes(row[4])]
        if len(rows) < len(found.rows):
            found = Found(rows, place_of_row(rows[-1]), found.seen, found.is_whole)
        return [letter_of(namespace, row) for row in rows], found

    async def count(self, namespace: str, wanted: DeadFilter, most: int) -> tuple[int, bool]:
        """How many there are, and whether that is all: it stops at `most`, and when its time is over."""
        found = await self.search(namespace, wanted, TOP, most)
        return len(found.rows), found.next is None

    async def search(
        self, namespace: str, wanted: DeadFilter, after: Place, limit: int, *, whole: bool = False
    ) -> Found:
        """What fits, below a place, at most so many. Without `whole` rows have no payload and no headers."""
        shards = self._cluster.shards
        if wanted.topic is not None:
            shards = (self._cluster.shard_of_topic(namespace, wanted.topic),)
        if wanted.id is not None:
            named = await self._around(wanted.id)
            if named is None:
                return Found((), None, 0, is_whole=True)
            shards, after = (named[0],), min(after, named[1])
        asked = _Asked(namespace, wanted, limit, whole=whole)
        parts = await asyncio.gather(*(self._on(shard, asked, after) for shard in shards))
        if not any(part.seen for part in parts) and not all(part.in_time for part in parts):
            raise ShardUnavailable("The dead letters could not be searched in time; try again", retry_after_s=1.0)
        return _merged(parts, limit)

    async def _around(self, message_id: int) -> tuple[Database, Place] | None:
        """The shard of a letter, and the place just above it."""
        shard = self._cluster.shard_of_id(message_id)
        async with shard.connection() as connection:
            row = await (await connection.execute(statement("dead_place"), {"id": message_id})).fetchone()
        return (shard, Place(row[0], message_id + 1)) if row else None

    async def _on(self, shard: Database, asked: "_Asked", place: Place) -> _Part:
        loop = asyncio.get_running_loop()
        rows: list[Row] = []
        seen, portion = 0, asked.first_portion
        async with self._turns[shard]:
            began = started = loop.time()
            while started - began <= BUDGET_S:
                part = await _portion(shard, asked.parameters(place, portion, len(rows)))
                if part is None:
                    if portion == 1:
                        break
                    portion, started = max(1, portion // 8), loop.time()
                    continue
                found, looked, lowest = part
                rows += found
                seen += looked
                if len(rows) >= asked.limit:
                    return _Part(rows, place_of_row(rows[-1]), seen, in_time=True)
                if looked < portion or asked.wanted.id is not None:
                    return _Part(rows, None, seen, in_time=True)
                quick = loop.time() - started < QUICK_S
                place, portion = lowest, min(MOST, portion * 2) if quick else max(1, portion // 2)
                started = loop.time()
        return _Part(rows, place, seen, in_time=False)


class _Asked:
    """What is the same for every portion of a search."""

    def __init__(self, namespace: str, wanted: DeadFilter, limit: int, *, whole: bool) -> None:
        self.wanted, self.limit = wanted, limit
        self.first_portion = 1 if wanted.id is not None else FIRST_TEXT if wanted.reads_text else FIRST
        if wanted.is_range:
            self.first_portion = min(MOST, limit + 1)
        self._parameters = {
            "namespace": namespace,
            "topic": wanted.topic,
            "since": wanted.since,
            "id": wanted.id,
            "reason": wanted.reason,
            "min_attempts": wanted.min_attempts,
            "max_attempts": wanted.max_attempts,
            "error": _lower(wanted.error),
            "text": _lower(wanted.text),
            "phrase": wanted.text and wanted.text.encode().lower().decode("latin-1"),
            "whole": whole,
        }

    def parameters(self, place: Place, portion: int, found: int) -> dict[str, Any]:
        if self.wanted.until is not None:
            place = min(place, Place(self.wanted.until, 0))
        here = {"before": place.died_at, "before_id": place.id, "portion": portion, "limit": self.limit - found}
        return self._parameters | here


async def _portion(shard: Database, parameters: dict[str, Any]) -> tuple[list[Row], int, Place] | None:
    """In a time limit of its own, of which the breaker hears nothing. None: it was too much for that."""
    async with shard.connection() as connection:
        try:
            async with connection.transaction():
                await connection.execute("SELECT set_config('statement_timeout', %s, true)", [str(LIMIT_MS)])
                answered = await (await connection.execute(statement("dead_search"), parameters)).fetchall()
        except errors.QueryCanceled:
            return None
    seen, died_at, lowest, *_ = answered[0]
    rows = [row[3:] for row in answered if row[3] is not None]
    return rows, seen, Place(died_at, lowest) if seen else TOP


def _merged(parts: Sequence[_Part], limit: int) -> Found:
    """Down to where every shard has looked: below that, one of them may have something in between."""
    down_to = max((part.down_to for part in parts if part.down_to), default=None)
    in_order = heapq.merge(*(part.rows for part in parts), key=place_of_row, reverse=True)
    rows = [row for row in in_order if down_to is None or place_of_row(row) >= down_to]
    if len(rows) > limit:
        rows = rows[:limit]
        down_to = place_of_row(rows[-1])
    seen = sum(_seen_above(part, down_to) for part in parts)
    return Found(rows, down_to, seen, len(rows) == limit or all(part.in_time for part in parts))


def _seen_above(part: _Part, place: Place | None) -> int:
    """As well as can be told: what was found lies among what was looked at as evenly as not."""
    if place is None or not part.rows:
        return part.seen
    return part.seen * sum(place_of_row(row) >= place for row in part.rows) // len(part.rows)


def place_of_row(row: Row) -> Place:
    return Place(row[10], row[0])


def _lower(text: str | None) -> str | None:
    """ASCII letters alone, as PostgreSQL does it in the collation C."""
    return text and text.encode().lower().decode()
