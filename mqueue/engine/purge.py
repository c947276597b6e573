"""Purge a topic: cancel what waits in it, in portions. What a consumer holds stays his.

A purge walks once through the order, from its head to its end, and takes what was there when it began: who goes on
enqueuing meanwhile keeps it from ending for no longer than it takes to look at what is new.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from mqueue.engine.topics import Topics
from shards.calls import change, fetch
from shards.cluster import Cluster
from shards.sql import statement
from tenants.registry import Name

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class Mark(NamedTuple):
    """How far a purge has come, and when it began by the shard's clock."""

    started: datetime | None
    priority: int
    due: datetime
    id: int

    def written(self) -> str:
        assert self.started
        return f"{_micros(self.started)}.{self.priority}.{_micros(self.due)}.{self.id}"


START = Mark(None, 0, LONG_AGO, 0)


def mark_of(text: str) -> Mark:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+){3}", text):
        return START
    started, priority, due, number = (int(part) for part in text.split("."))
    return Mark(_time(started), priority, _time(due), number)


class Purging:
    def __init__(self, cluster: Cluster, topics: Topics) -> None:
        self._cluster, self._topics = cluster, topics

    async def look(self, name: Name, mark: Mark, limit: int) -> tuple[list[int], Mark, int]:
        """The ids of a portion that may be purged, the mark behind it, and how many were looked at: 0 at the end."""
        number = await self._topics.find(name)
        if number is None:
            return [], mark, 0
        parameters = mark._asdict() | {"topic": number, "limit": limit}
        rows = await fetch(self._cluster.shard_of_topic(*name), statement("purge_ids"), parameters)
        if not rows:
            return [], mark, 0
        last = rows[-1]
        behind = Mark(mark.started or last[4], last[1], last[2], last[0])
        return [row[0] for row in rows if row[3]], behind, len(rows)

    async def purge(self, name: Name, ids: Sequence[int], who: tuple[str, str]) -> int:
        """How many still waited. `who` is the consumer and the detail of the events."""
        number = await self._topics.find(name)
        if number is None:
            return 0
        parameters = {"topic": number, "ids": list(ids), "consumer": who[0], "detail": who[1]}
        return len(await change(self._cluster.shard_of_topic(*name), statement("purge"), parameters))


def _micros(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND


def _time(micros: int) -> datetime:
    return _EPOCH + micros * _MICROSECOND
