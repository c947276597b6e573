"""Search dead letters, from those that died last downward, in a time that does not depend on how many there are.

A search looks at portions of letters until it has found enough or its time is over. What it answers then is honest: the
place to go on from, whether or not anything was found up to there.
"""

import asyncio
import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mqueue.core.errors import ShardUnavailable
from mqueue.core.messages import DeadLetter
from mqueue.core.searches import TOP, DeadFilter, Place
from mqueue.engine.contents import READ_AT_ONCE, Page
from mqueue.engine.dead import letter_of
from mqueue.engine.dead_walk import Line, Part, Walk
from shards.calls import fetch
from shards.cluster import Cluster
from shards.sql import statement

AT_ONCE = 2  # searches on a shard, of one process: the queue comes first


@dataclass(frozen=True, slots=True)
class Found:
    lines: Sequence[Line]
    next: Place | None  # None: there is nothing below
    seen: int  # about how many letters it looked at
    is_whole: bool  # False: it stopped because its time was over, and not because it had found enough

    def head(self, limit: int) -> "Found":
        """What a search for so many would have found."""
        if len(self.lines) <= limit:
            return self
        lines = self.lines[:limit]
        return Found(lines, lines[-1].place, self.seen, is_whole=True)


class DeadSearch:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._turns = {shard: asyncio.Semaphore(AT_ONCE) for shard in cluster.shards}

    async def page(
        self, namespace: str, wanted: DeadFilter, after: Place, limit: int
    ) -> tuple[list[DeadLetter], Found]:
        """Letters as they are answered, at most 16 MiB of them. One that is gone by now is left out."""
        found = await self.search(namespace, wanted, after, limit)
        page = Page(limit)
        letters: list[DeadLetter] = []
        last = after
        for start in range(0, len(found.lines), READ_AT_ONCE):
            part = found.lines[start : start + READ_AT_ONCE]
            whole = await self._whole(namespace, part)
            for line in part:
                row = whole.get(line.id)
                if row and not page.takes(row[4]):
                    return letters, Found(found.lines, last, found.seen, found.is_whole)
                last = line.place
                if row:
                    letters.append(letter_of(namespace, row))
        return letters, found

    async def count(self, namespace: str, wanted: DeadFilter, most: int) -> tuple[int, bool]:
        """How many there are, and whether that is all: it stops at `most`, and when its time is over."""
        found = await self.search(namespace, wanted, TOP, most)
        return len(found.lines), found.next is None

    async def search(self, namespace: str, wanted: DeadFilter, after: Place, limit: int) -> Found:
        """What fits, below a place, at most so many."""
        if wanted.id is not None:
            return await self._one(namespace, wanted, after)
        shards = self._cluster.shards
        if wanted.topic is not None:
            shards = (self._cluster.shard_of_topic(namespace, wanted.topic),)

        async def on(walk: Walk) -> Part:
            async with self._turns[walk.shard]:
                return await walk.down(after)

        parts = await asyncio.gather(*(on(Walk(shard, namespace, wanted, limit)) for shard in shards))
        if any(not part.in_time and part.down_to == after for part in parts):
            raise ShardUnavailable("The dead letters could not be searched in time; try again", retry_after_s=1.0)
        return _merged(parts, limit)

    async def _one(self, namespace: str, wanted: DeadFilter, after: Place) -> Found:
        """By its id: no other is looked at."""
        assert wanted.id is not None
        shard = self._cluster.shard_of_id(wanted.id)
        rows = await fetch(shard, statement("dead_place"), {"id": wanted.id, "namespace": namespace})
        lines: list[Line] = []
        if rows and Place(rows[0][1], wanted.id) < after:
            number, died_at = rows[0]
            walk = Walk(shard, namespace, wanted, 1)
            done = await walk.step({number: Place(died_at, wanted.id + 1)}, 1) or {}
            lines = [line for portion in done.values() for line in portion.lines]
        fitting = [line for line in lines if wanted.topic in (None, line.topic)]
        return Found(fitting, None, len(rows), is_whole=True)

    async def _whole(self, namespace: str, lines: Sequence[Line]) -> dict[int, Any]:
        by_shard = defaultdict(list)
        for line in lines:
            by_shard[self._cluster.shard_of_topic(namespace, line.topic)].append(line.id)
        parts = await asyncio.gather(
            *(
                fetch(shard, statement("dead_whole"), {"ids": ids, "namespace": namespace})
                for shard, ids in by_shard.items()
            )
        )
        return {row[0]: row for rows in parts for row in rows}


def _merged(parts: Sequence[Part], limit: int) -> Found:
    """Down to where every shard has looked: below that, one of them may have something in between."""
    down_to = max((part.down_to for part in parts if part.down_to), default=None)
    in_order = heapq.merge(*(part.lines for part in parts), key=lambda line: line.place, reverse=True)
    lines = [line for line in in_order if down_to is None or line.place >= down_to]
    if len(lines) > limit:
        lines = lines[:limit]
        down_to = lines[-1].place
    seen = sum(part.seen_above(down_to) for part in parts)
    return Found(lines, down_to, seen, len(lines) == limit or all(part.in_time for part in parts))
