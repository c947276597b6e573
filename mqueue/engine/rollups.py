"""What the pipeline has rolled up of a namespace: usage and times by hour, and what its messages died of."""

import asyncio
from datetime import date, datetime
from typing import Any, Literal, NamedTuple

from mqueue.core.redrive import before, search_for
from shards.calls import fetch
from shards.cluster import Cluster
from shards.sql import statement
from tenants.job_records import JobRequest
from tenants.rollup_records import Failure, FailureDay, Percentiles, Redrive, UsageHour


class Hours(NamedTuple):
    namespace: str
    topic: str | None
    since: datetime
    until: datetime
    unit: Literal["hour", "day"]
    whole: bool
    before: datetime  # the last of the page before
    after: str
    limit: int


class Failed(NamedTuple):
    namespace: str
    topic: str | None
    since: date
    until: date
    before: int
    after: str
    limit: int


class Rollups:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def at(self, kind: Literal["usage", "failures"]) -> datetime | None:
        """When it was last rolled up."""
        rows = await fetch(self._cluster.control, statement("rolled_up_at"), {"kind": kind})
        return rows[0][0] if rows else None

    async def hours(self, wanted: Hours) -> list[UsageHour]:
        rows = await fetch(self._cluster.control, statement("usage_hours"), wanted._asdict())
        return [_hour(row) for row in rows]

    async def failures(self, wanted: Failed) -> list[Failure]:
        rows = await fetch(self._cluster.control, statement("usage_failures"), wanted._asdict())
        waiting = await self._dead(wanted.namespace) if rows else {}
        return [_failure(row, waiting.get(row[1], 0)) for row in rows]

    async def _dead(self, namespace: str) -> dict[str, int]:
        """Dead letters by topic, now."""
        asked = {"namespace": namespace}
        counts = await asyncio.gather(*(fetch(one, statement("dead_counts"), asked) for one in self._cluster.shards))
        found: dict[str, int] = {}
        for _, topic, count in (row for rows in counts for row in rows):
            found[topic] = found.get(topic, 0) + count
        return found


def _hour(row: Any) -> UsageHour:
    at, topic, enqueued, enqueued_bytes, delivered, acked, retried, dead, *times = row
    counts = enqueued, enqueued_bytes, delivered, acked, retried, dead
    return UsageHour(at, topic or None, *counts, _times(times[:3]), _times(times[3:6]), _times(times[6:]))


def _times(values: Any) -> Percentiles | None:
    return None if values[0] is None else Percentiles(*values)


def _failure(row: Any, waiting: int) -> Failure:
    number, topic, reason, fingerprint, deaths, of_topic, first_at, last_at, sample, sample_id, days, by_day = row
    job = JobRequest("replay", search_for(topic, reason, fingerprint, sample)) if waiting else None
    advice = (
        f"{waiting} of the topic wait; {before(reason)} replay those of this error"
        if waiting
        else "none of the topic's dead letters is left"
    )
    return Failure(
        number, topic, reason, fingerprint, deaths, deaths / of_topic, first_at, last_at, sample, sample_id,
        [FailureDay(*day) for day in zip(days, by_day, strict=True)], Redrive(waiting, advice, job),
    )  # fmt: skip
