"""Lease what is due, in order, straight from PostgreSQL."""

import asyncio
import time
from typing import Any

import msgspec
from msgspec import UNSET

from mqueue.core import receipts
from mqueue.core.messages import DEFAULT_MAX_RETRIES, DEFAULT_VISIBILITY_MS, Delivered, Dequeue
from mqueue.engine.topics import Topics
from shards.cluster import Cluster
from shards.partitions import with_partitions
from shards.sql import statement

POLL_S = 0.1
EMPTY = msgspec.Raw(b"{}")


async def dequeue(cluster: Cluster, topics: Topics, consumer: str, wanted: Dequeue) -> list[Delivered]:
    """Empty for a topic that nobody has made yet. Waits up to wait_ms for the first message."""
    deadline = time.monotonic() + wanted.wait_ms / 1000
    while True:
        found = await _claim_once(cluster, topics, consumer, wanted)
        left = deadline - time.monotonic()
        if found or left <= 0:
            return found
        await asyncio.sleep(min(POLL_S, left))


async def _claim_once(cluster: Cluster, topics: Topics, consumer: str, wanted: Dequeue) -> list[Delivered]:
    number = await topics.find((wanted.namespace, wanted.topic))
    if number is None:
        return []
    shard = cluster.shard_of_topic(wanted.namespace, wanted.topic)
    parameters = {
        "topic": number,
        "limit": wanted.limit,
        "visibility_ms": wanted.visibility_ms or DEFAULT_VISIBILITY_MS,
        "consumer": consumer,
    }

    async def claim() -> list[Any]:
        async with shard.connection() as connection, connection.transaction():
            claimed = await (await connection.execute(statement("claim"), parameters)).fetchall()
            if not claimed:
                return []
            keys = {"ids": [row[0] for row in claimed], "days": list({row[1] for row in claimed})}
            loaded = await (await connection.execute(statement("load"), keys)).fetchall()
            messages = {row[0]: row for row in loaded}
            return sorted(((row, messages[row[0]]) for row in claimed), key=lambda pair: _order(pair[0]))

    return [_delivered(wanted, row, message) for row, message in await with_partitions(shard, (), claim)]


def _order(row: Any) -> tuple[Any, ...]:
    message_id, _, _, _, _, priority, due = row
    return priority, due, message_id


def _delivered(wanted: Dequeue, row: Any, message: Any) -> Delivered:
    message_id, _, attempts, epoch, until, priority, _ = row
    _, is_json, payload, headers, traceparent, max_retries, enqueued_at, deliver_after = message
    return Delivered(
        id=message_id,
        namespace=wanted.namespace,
        topic=wanted.topic,
        priority=priority,
        payload=UNSET if is_json else payload,
        body=msgspec.Raw(payload) if is_json else UNSET,
        headers=msgspec.Raw(headers.encode()) if headers else EMPTY,
        traceparent=traceparent or UNSET,
        attempt=attempts,
        max_retries=DEFAULT_MAX_RETRIES if max_retries is None else max_retries,
        enqueued_at=enqueued_at,
        deliver_after=deliver_after,
        lease_expires_at=until,
        receipt=receipts.seal(message_id, epoch),
    )
