"""One shard's part of a search: a walk down several topics at once, always where it has come least far.

So each letter is looked at once, however unevenly topics have them: to read the next portion of every topic each time
would cost as many portions as there are topics.
"""

import asyncio
import heapq
from datetime import datetime
from typing import Any, NamedTuple

from psycopg import errors

from mqueue.core.searches import DeadFilter, Place
from shards.pools import Database
from shards.sql import statement

BUDGET_S = 1.5
LIMIT_MS = 1_000  # of one statement
WIDTH = 16  # topics of one statement, but for the first, which are all
FIRST, FIRST_TEXT = 100, 400  # letters of a statement; they grow while they are quick
LEAST, MOST = 100, 40_000
QUICK_S, SLOW_S = 0.1, 0.5


class Line(NamedTuple):
    """A letter as a list shows it."""

    id: int
    topic: str
    attempts: int
    error: str | None
    reason: str
    died_at: datetime

    @property
    def place(self) -> Place:
        return Place(self.died_at, self.id)


class Portion(NamedTuple):
    """Of one topic: how many letters were looked at, the lowest of them, and what fits."""

    seen: int
    lowest: Place
    lines: list[Line]

    def seen_above(self, place: Place | None) -> int:
        """As well as can be told: what fits lies among the others as evenly as not."""
        if place is None or self.lowest >= place:
            return self.seen
        return self.seen * sum(line.place >= place for line in self.lines) // max(1, len(self.lines))


class Part(NamedTuple):
    """What one shard answers, and the place down to which it has looked: None where that is the end."""

    lines: list[Line]
    down_to: Place | None
    portions: list[Portion]
    in_time: bool

    def seen_above(self, place: Place | None) -> int:
        return sum(portion.seen_above(place) for portion in self.portions)


class Walk:
    def __init__(self, shard: Database, namespace: str, wanted: DeadFilter, limit: int) -> None:
        self.shard = shard
        self._namespace, self._wanted, self._limit = namespace, wanted, limit
        self._letters = FIRST_TEXT if wanted.reads_text else max(FIRST, limit + 1)
        self._lines: list[Line] = []
        self._portions: list[Portion] = []

    async def down(self, after: Place) -> Part:
        """Until there is enough, nothing more, or no time left."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        top = min(after, Place(self._wanted.until, 0)) if self._wanted.until else after
        at = dict.fromkeys(await self._topics(), top)
        width = len(at)
        while at:
            down_to = max(at.values())
            if width == WIDTH and sum(line.place >= down_to for line in self._lines) >= self._limit:
                break
            if width == WIDTH and loop.time() - began > BUDGET_S:
                return self._part(after if down_to == top else down_to, in_time=False)
            chosen = dict(heapq.nlargest(width, at.items(), key=lambda one: one[1]))
            started = loop.time()
            portion = max(1, self._letters // len(chosen))
            done = await self.step(chosen, portion)
            if done is None:
                if self._letters <= len(chosen) or loop.time() - began > BUDGET_S:
                    return self._part(after if down_to == top else down_to, in_time=False)
                self._letters = max(1, self._letters // 8)
                continue
            self._move(at, chosen, portion, done)
            took, width = loop.time() - started, WIDTH
            if took < QUICK_S:
                self._letters = min(MOST, 2 * self._letters)
            elif took > SLOW_S:
                self._letters = max(LEAST, self._letters // 2)
        return self._part(max(at.values(), default=None), in_time=True)

    async def step(self, places: dict[int, Place], most: int) -> dict[int, Portion] | None:
        """Look at a portion of each of these topics, of at most so many letters. In a time limit of its own, of which
        the breaker hears nothing. None: it was too much for that."""
        parameters = self._conditions() | {
            "topic": list(places),
            "before": [place.died_at for place in places.values()],
            "before_id": [place.id for place in places.values()],
            "portion": most,
        }
        async with self.shard.connection() as connection:
            try:
                async with connection.transaction():
                    await connection.execute("SELECT set_config('statement_timeout', %s, true)", [str(LIMIT_MS)])
                    # Not prepared: a plan for any portion would read the whole table for each.
                    cursor = await connection.execute(statement("dead_search"), parameters, prepare=False)
                    rows = await cursor.fetchall()
            except errors.QueryCanceled:
                return None
        found: dict[int, Portion] = {}
        for number, seen, died_at, lowest, *line in rows:
            portion = found.setdefault(number, Portion(seen, Place(died_at, lowest), []))
            if line[0] is not None:
                portion.lines.append(Line(*line))
        return found

    def _move(self, at: dict[int, Place], chosen: dict[int, Place], most: int, done: dict[int, Portion]) -> None:
        for topic in chosen:
            portion = done.get(topic)
            if portion:
                self._portions.append(portion)
                self._lines += portion.lines
            if portion and portion.seen == most:
                at[topic] = portion.lowest
            else:
                del at[topic]

    def _part(self, down_to: Place | None, *, in_time: bool) -> Part:
        lines = sorted(self._lines, key=lambda line: line.place, reverse=True)
        return Part(lines, down_to, self._portions, in_time)

    async def _topics(self) -> list[int]:
        parameters = {"namespace": self._namespace, "topic": self._wanted.topic}
        async with self.shard.connection() as connection:
            return [row[0] for row in await (await connection.execute(statement("dead_topics"), parameters)).fetchall()]

    def _conditions(self) -> dict[str, Any]:
        wanted = self._wanted
        return {
            "namespace": self._namespace,
            "since": wanted.since,
            "id": wanted.id,
            "reason": wanted.reason,
            "min_attempts": wanted.min_attempts,
            "max_attempts": wanted.max_attempts,
            "error": _lower(wanted.error),
            "text": _lower(wanted.text),
            "phrase": wanted.text and wanted.text.encode().lower().decode("latin-1"),
        }


def _lower(text: str | None) -> str | None:
    """ASCII letters alone, as PostgreSQL does it in the collation C."""
    return text and text.encode().lower().decode()
