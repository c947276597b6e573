"""Usage is counted once from what the queue writes anyway, however late that is committed."""

import datetime
import time
from typing import Any

import psycopg
import pytest

from daemons import usage as daemon
from daemons.usage import UsageDaemon
from mqueue.core.messages import Dequeue, Nack, Settle
from mqueue.engine.engine import Engine
from mqueue.engine.usage import Wanted
from shards.routing import slot_of
from tests.integration.messages import message, send

TODAY = datetime.datetime.now(datetime.UTC).date
TOP = (datetime.date.max, "")


async def used(engine: Engine, namespace: str, *, by_topic: bool = False) -> list[tuple[Any, ...]]:
    since = TODAY() - datetime.timedelta(days=3)
    found = await engine.usages.page(Wanted(namespace, None, since, TODAY(), by_topic, TOP, 100))
    return [(d.topic, d.enqueued, d.enqueued_bytes, d.delivered, d.acked, d.retried, d.dead) for d in found]


async def count(engine: Engine) -> None:
    for shard in engine.cluster.shards:
        await UsageDaemon(shard).run_once()


async def counted(engine: Engine, namespace: str, *expected: tuple[Any, ...]) -> None:
    """Soon: transactions of other tests on this server keep a count back while they are open."""
    deadline = time.monotonic() + 30
    while (found := await used(engine, namespace)) != list(expected) and time.monotonic() < deadline:
        await count(engine)
    assert found == list(expected)


async def test_each_step_is_counted_once(engine: Engine, namespace: str) -> None:
    await send(engine, *(message(namespace, "a", "12345678") for _ in range(3)), message(namespace, "b"))
    first, second, _ = await engine.dequeue("c", Dequeue(namespace, "a", limit=3))
    await engine.ack("c", [Settle(first.id, namespace, "a", first.receipt)])
    await engine.nack("c", [Nack(second.id, namespace, "a", second.receipt, delay_ms=0)])
    await counted(engine, namespace, (None, 4, 31, 3, 1, 1, 0))
    for _ in range(3):
        await count(engine)
        assert await used(engine, namespace) == [(None, 4, 31, 3, 1, 1, 0)]
    assert await used(engine, namespace, by_topic=True) == [("a", 3, 30, 3, 1, 1, 0), ("b", 1, 1, 0, 0, 0, 0)]
    (again,) = await engine.dequeue("c", Dequeue(namespace, "a"))
    await engine.nack("c", [Nack(again.id, namespace, "a", again.receipt, dead=True)])
    await counted(engine, namespace, (None, 4, 31, 4, 1, 1, 1))


async def test_what_commits_late_is_counted_when_it_does(engine: Engine, namespace: str, configuration: Any) -> None:
    await send(engine, message(namespace))
    await counted(engine, namespace, (None, 1, 1, 0, 0, 0, 0))
    shard = slot_of(namespace, "t") * 2 // 1024
    with psycopg.connect(configuration.shard_urls[shard]) as late:
        late.execute(
            "INSERT INTO message (id, topic, day, priority, is_json, payload, payload_bytes) "
            "SELECT 7, id, current_date, 5, true, '1', 1 FROM topic WHERE namespace = %s",
            [namespace],
        )
        await send(engine, message(namespace))
        await count(engine)
        assert await used(engine, namespace) == [(None, 1, 1, 0, 0, 0, 0)]  # kept back by the one that is open
        late.commit()
    await counted(engine, namespace, (None, 3, 3, 0, 0, 0, 0))
    await count(engine)
    assert await used(engine, namespace) == [(None, 3, 3, 0, 0, 0, 0)]


async def test_two_at_once_count_once(engine: Engine, namespace: str, configuration: Any) -> None:
    await send(engine, *(message(namespace) for _ in range(50)))
    shard = slot_of(namespace, "t") * 2 // 1024
    with psycopg.connect(configuration.shard_urls[shard]) as other:
        other.execute("SELECT FROM usage_mark FOR UPDATE")
        await count(engine)
        assert await used(engine, namespace) == []  # somebody else is at it
    await counted(engine, namespace, (None, 50, 50, 0, 0, 0, 0))


async def test_what_takes_too_long_is_counted_in_parts(
    engine: Engine, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(9):
        await send(engine, message(namespace))
    monkeypatch.setattr(daemon, "LONGEST", 2)
    await counted(engine, namespace, (None, 9, 9, 0, 0, 0, 0))


async def test_a_topic_that_has_moved_is_one_topic(engine: Engine, namespace: str) -> None:
    await send(engine, message(namespace))
    await counted(engine, namespace, (None, 1, 1, 0, 0, 0, 0))
    for shard in engine.cluster.shards:
        async with shard.connection() as connection:
            await connection.execute(
                "INSERT INTO topic (id, namespace, name) VALUES (2000000000, %s, 'moved') ON CONFLICT DO NOTHING",
                [namespace],
            )
            await connection.execute(
                "INSERT INTO usage (topic, day, enqueued) SELECT id, current_date, 5 FROM topic "
                "WHERE namespace = %s AND name = 'moved'",
                [namespace],
            )
    assert await used(engine, namespace, by_topic=True) == [("moved", 10, 0, 0, 0, 0, 0), ("t", 1, 1, 0, 0, 0, 0)]
    assert await used(engine, namespace) == [(None, 11, 1, 0, 0, 0, 0)]
    for shard in engine.cluster.shards:
        async with shard.connection() as connection:
            await connection.execute(
                "DELETE FROM topic WHERE id = 2000000000; DELETE FROM usage WHERE topic = 2000000000"
            )
