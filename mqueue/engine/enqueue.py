"""Add messages: one transaction a shard, and an id for each message that committed."""

import asyncio
import datetime
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mqueue.core.errors import ShardUnavailable, Undecided
from mqueue.core.messages import Message
from mqueue.engine.topics import Topics
from shards.cluster import Cluster
from shards.partitions import with_partitions
from shards.pools import Database
from shards.routing import SLOTS, slot_of
from shards.sql import statement
from tenants.registry import Name

# Any past time means now; one before the year 1 in UTC could be stored, and never be read again.
LONG_AGO = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(slots=True)
class Enqueued:
    """`ids` in the order of the request, null where the message was not added; `in_doubt` names indexes."""

    ids: list[int | None]
    in_doubt: list[int] = field(default_factory=list)
    error: ShardUnavailable | None = None


async def enqueue(cluster: Cluster, topics: Topics, producer: str, messages: Sequence[Message]) -> Enqueued:
    numbers = await topics.find_or_make((message.namespace, message.topic) for message in messages)
    first = await cluster.ids.take(len(messages))
    result = Enqueued(ids=[None] * len(messages))
    parts: dict[Database, list[int]] = defaultdict(list)
    for index, message in enumerate(messages):
        parts[cluster.shard_of_topic(message.namespace, message.topic)].append(index)

    async def add(shard: Database, indexes: list[int]) -> None:
        rows = {index: messages[index] for index in indexes}
        ids = {index: (first + index) * SLOTS + slot_of(row.namespace, row.topic) for index, row in rows.items()}
        used = {(row.namespace, row.topic) for row in rows.values()}
        try:
            await topics.note_on(shard, {name: numbers[name] for name in used})
        except ShardUnavailable as error:
            result.error = error
            return
        try:
            await _insert(shard, _columns(list(ids.values()), list(rows.values()), numbers, producer))
        except Undecided as error:
            result.error = error
            result.in_doubt += indexes
        except ShardUnavailable as error:
            result.error = error
            return
        for index, message_id in ids.items():
            result.ids[index] = message_id

    await asyncio.gather(*(add(shard, indexes) for shard, indexes in parts.items()))
    result.in_doubt.sort()
    return result


async def _insert(shard: Database, columns: dict[str, Any]) -> None:
    async def insert() -> None:
        async with shard.connection() as connection:
            await connection.execute(statement("enqueue"), columns)

    now = datetime.datetime.now(datetime.UTC)
    wished = (
        at or now + datetime.timedelta(milliseconds=delay_ms or 0)
        for at, delay_ms in zip(columns["at"], columns["delay_ms"], strict=True)
    )
    # A past time means now. A day more on either side: midnight is by the server's clock.
    days = {max(wish, now).astimezone(datetime.UTC).date() for wish in wished}
    around = {day + datetime.timedelta(n) for day in days for n in (-1, 0, 1)}
    await with_partitions(shard, around, insert)


def _columns(ids: list[int], rows: list[Message], numbers: dict[Name, int], producer: str) -> dict[str, Any]:
    return {
        "id": ids,
        "topic": [numbers[row.namespace, row.topic] for row in rows],
        "priority": [row.priority for row in rows],
        "at": [row.deliver_after and max(row.deliver_after, LONG_AGO) for row in rows],
        "delay_ms": [row.delay_ms or None for row in rows],
        "ttl_ms": [row.ttl_ms for row in rows],
        "is_json": [row.is_json for row in rows],
        "payload": [row.content for row in rows],
        "headers": [_json(row.headers) for row in rows],
        "traceparent": [row.traceparent for row in rows],
        "max_retries": [row.max_retries for row in rows],
        "retry": [_json(row.retry) for row in rows],
        "producer": producer,
    }


def _json(value: object) -> str | None:
    return msgspec.json.encode(value).decode() if value else None
