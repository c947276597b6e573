"""What a namespace has used, by day. `daemons/usage.py` counts it."""

import asyncio
import heapq
from collections.abc import Iterable
from datetime import date
from typing import Any, NamedTuple

from shards.calls import fetch
from shards.cluster import Cluster
from shards.sql import statement
from tenants.usage_records import UsageDay


class Wanted(NamedTuple):
    namespace: str
    topic: str | None
    since: date
    until: date
    by_topic: bool
    before: tuple[date, str]  # the last of the page before
    limit: int


class Usages:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def page(self, wanted: Wanted) -> list[UsageDay]:
        """Of all shards: a topic that has moved has rows on several."""
        parameters = wanted._asdict() | {
            "whole": not wanted.by_topic,
            "before": wanted.before[0],
            "after": wanted.before[1],
        }
        pages = await asyncio.gather(*(fetch(shard, statement("usage"), parameters) for shard in self._cluster.shards))
        rows = heapq.merge(*pages, key=lambda row: (-row[0].toordinal(), row[1]))
        return [_usage(row) for row in _summed(rows)][: wanted.limit]


def _summed(rows: Iterable[Any]) -> list[list[Any]]:
    found: list[list[Any]] = []
    for row in rows:
        if found and found[-1][:2] == list(row[:2]):
            found[-1][2:] = [a + b for a, b in zip(found[-1][2:], row[2:], strict=True)]
        else:
            found.append(list(row))
    return found


def _usage(row: list[Any]) -> UsageDay:
    day, topic, *counts = row
    return UsageDay(day, topic or None, *counts)
