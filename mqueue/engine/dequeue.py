"""Lease what is due, in order."""

import logging
from functools import partial
from itertools import accumulate
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from mqueue.core import receipts
from mqueue.core.errors import ShardUnavailable
from mqueue.core.messages import DEFAULT_MAX_RETRIES, DEFAULT_VISIBILITY_MS, MAX_REQUEST, Delivered, Dequeue
from mqueue.engine.contents import content, headers
from mqueue.engine.line import Line, Waiter
from mqueue.engine.topics import Topics
from shards.cluster import Cluster
from shards.partitions import with_partitions
from shards.pools import Database
from shards.sql import statement
from tenants.registry import Name

log = logging.getLogger(__name__)


class Dequeuing:
    def __init__(self, cluster: Cluster, topics: Topics) -> None:
        self._cluster, self._topics = cluster, topics
        self._lines: dict[int, Line] = {}

    async def dequeue(self, consumer: str, wanted: Dequeue) -> list[Delivered]:
        """Empty for a topic that nobody has made yet. Waits up to wait_ms for the first message."""
        name = (wanted.namespace, wanted.topic)
        number, waited_s = await self._topics.wait_for(name, wanted.wait_ms / 1000)
        if number is None:
            return []
        if waited_s > 0.001:
            wanted = replace(wanted, wait_ms=max(0, wanted.wait_ms - int(waited_s * 1000)))
        line = self._lines.get(number)
        if line is None:
            line = Line(Claims(self._cluster, name, number), partial(self._forget, number))
            self._lines[number] = line
        return await line.take(wanted, consumer)

    def _forget(self, topic: int) -> None:
        self._lines.pop(topic, None)

    def wake(self, topic: int, in_s: float = 0.0) -> None:
        if line := self._lines.get(topic):
            line.wake(in_s)


class Claims:
    """Of one topic, straight from PostgreSQL."""

    def __init__(self, cluster: Cluster, name: Name, topic: int) -> None:
        self._cluster, self._name, self._topic = cluster, name, topic

    @property
    def _shard(self) -> Database:
        return self._cluster.shard_of_topic(*self._name)

    async def claim(self, waiters: list[Waiter]) -> list[list[Delivered]]:
        highs = list(accumulate(waiter.wanted.limit for waiter in waiters))
        lows = [0, *highs[:-1]]
        parameters = {
            "topic": self._topic,
            "limit": highs[-1],
            "low": lows,
            "high": highs,
            "visibility_ms": [waiter.wanted.visibility_ms or DEFAULT_VISIBILITY_MS for waiter in waiters],
            "consumer": [waiter.consumer for waiter in waiters],
        }
        rows = await self._claim_and_load(parameters)
        if too_much := [(row[0], row[3]) for row, message in rows if message[2] is None]:
            await self._release(too_much)
        found, passed_over = [], []
        for waiter, low, high in zip(waiters, lows, highs, strict=True):
            part = [_delivered(self._name, *pair) for pair in rows[low:high] if pair[1][2] is not None]
            if rows[low:high] and not part:
                passed_over.append(waiter)
            found.append(part)
        if passed_over:
            again = dict(zip(passed_over, await self.claim(passed_over), strict=True))
            found = [again.get(waiter, part) for waiter, part in zip(waiters, found, strict=True)]
        return found

    async def next_due_in(self) -> float | None:
        async with self._shard.connection() as connection:
            row: Any = await (await connection.execute(statement("next_due"), {"topic": self._topic})).fetchone()
        return (row[0] - row[1]).total_seconds() if row and row[0] else None

    async def give_back(self, found: list[Delivered]) -> None:
        await self._release([receipts.unseal(one.receipt) or (0, 0) for one in found])

    async def _claim_and_load(self, parameters: dict[str, Any]) -> list[Any]:
        shard = self._shard

        async def claim() -> list[Any]:
            async with shard.connection() as connection, connection.transaction():
                claimed = await (await connection.execute(statement("claim"), parameters)).fetchall()
                if not claimed:
                    return []
                claimed.sort(key=_order)
                keys = {"ids": [row[0] for row in claimed], "days": list({row[1] for row in claimed})}
                cursor = await connection.execute(statement("load"), keys | {"most": MAX_REQUEST})
                messages = {row[0]: row for row in await cursor.fetchall()}
                return [(row, messages[row[0]]) for row in claimed]

        return await with_partitions(shard, (), claim)

    async def _release(self, leases: list[tuple[int, int]]) -> None:
        """Without spending an attempt. Where that fails, the leases run out by themselves."""
        shard, count = self._shard, len(leases)
        columns = {
            "position": list(range(count)),
            "id": [number for number, _ in leases],
            "topic": [self._topic] * count,
            "epoch": [epoch for _, epoch in leases],
            "consumer": [None] * count,
        }
        try:
            async with shard.connection() as connection:
                await connection.execute(statement("release"), columns)
        except ShardUnavailable:
            log.warning("%d messages that nobody took come again when their leases end", count)


def _order(row: Any) -> tuple[Any, ...]:
    message_id, _, _, _, _, priority, due = row
    return priority, due, message_id


def _delivered(name: Name, row: Any, message: Any) -> Delivered:
    message_id, _, attempts, epoch, until, priority, _ = row
    _, is_json, payload, named, traceparent, max_retries, enqueued_at, deliver_after = message
    return Delivered(
        id=message_id,
        namespace=name[0],
        topic=name[1],
        priority=priority,
        headers=headers(named),
        traceparent=traceparent or UNSET,
        attempt=attempts,
        max_retries=DEFAULT_MAX_RETRIES if max_retries is None else max_retries,
        enqueued_at=enqueued_at,
        deliver_after=deliver_after,
        lease_expires_at=until,
        receipt=receipts.seal(message_id, epoch),
        **content(is_json, payload),
    )
