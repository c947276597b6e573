"""A search among dead letters finds what fits, in order and once, however small its steps are."""

import asyncio
import base64
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import psycopg
import pytest

from mqueue.core.conf import Conf
from mqueue.core.errors import ShardUnavailable
from mqueue.core.messages import Dequeue, Message, Nack
from mqueue.core.searches import TOP, DeadFilter, Place
from mqueue.engine import dead_walk
from mqueue.engine.dead_search import Found
from mqueue.engine.engine import Engine
from shards.routing import slot_of
from tests.integration.messages import message, send
from tests.letters import bury


async def kill(engine: Engine, namespace: str, topic: str = "t", error: str | None = "boom", **fields: Any) -> int:
    one = fields.pop("whole", None) or message(namespace, topic, **fields)
    (number,) = await send(engine, one)
    (found,) = await engine.dequeue("c", Dequeue(namespace, topic))
    await engine.nack("c", [Nack(number, namespace, topic, found.receipt, error=error, dead=True)])
    return number


async def search(engine: Engine, namespace: str, wanted: DeadFilter, place: Place, limit: int) -> Found:
    """Again where it is told so: a machine that stands still for two seconds does not get there in time."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return await engine.dead_search.search(namespace, wanted, place, limit)
        except ShardUnavailable as error:
            assert error.retry_after_s
            assert time.monotonic() < deadline
            await asyncio.sleep(error.retry_after_s)


async def ids(engine: Engine, namespace: str, **wanted: Any) -> list[int]:
    found = await search(engine, namespace, DeadFilter(**wanted), TOP, 1000)
    assert found.next is None
    assert found.is_whole
    return [line.id for line in found.lines]


async def test_those_that_died_last_come_first_across_topics_and_shards(engine: Engine, namespace: str) -> None:
    dead = [await kill(engine, namespace, f"t{n % 5}") for n in range(12)]
    assert await ids(engine, namespace) == dead[::-1]
    assert await ids(engine, f"{namespace}-x") == []
    seen: list[int] = []
    place = TOP
    while True:
        found = await search(engine, namespace, DeadFilter(), place, 5)
        seen += [line.id for line in found.lines]
        if found.next is None:
            break
        place = found.next
    assert seen == dead[::-1]


async def test_each_condition(engine: Engine, namespace: str, lapse_now: Any) -> None:
    text = await kill(engine, namespace, body={"to": "Ada Lovelace"}, error="SMTP timeout")
    other = await kill(engine, namespace, "u", body="Grün", error=None)
    binary = msgspec.convert(
        {"namespace": namespace, "topic": "t", "payload": base64.b64encode(b"\0ada lovelace").decode()}, Message
    )
    nul = await kill(engine, namespace, whole=binary, error="other")
    (lapsed,) = await send(engine, message(namespace, max_retries=0))
    await engine.dequeue("c", Dequeue(namespace, "t"))
    await lapse_now(lapsed)
    assert await ids(engine, namespace, text="ada LOVE") == [text]
    assert await ids(engine, namespace, text="smtp TIME") == [text]
    assert await ids(engine, namespace, text="Grün") == [other]
    assert await ids(engine, namespace, text="grün") == [other]
    assert await ids(engine, namespace, text="%") == []
    assert await ids(engine, namespace, error="smtp") == [text]
    assert await ids(engine, namespace, error="ada") == []
    assert await ids(engine, namespace, reason="max_retries") == [lapsed]
    assert await ids(engine, namespace, topic="u") == [other]
    assert await ids(engine, namespace, topic="never") == []
    assert await ids(engine, namespace, id=nul) == [nul]
    assert await ids(engine, namespace, id=nul, reason="expired") == []
    assert await ids(engine, namespace, id=nul, topic="u") == []
    assert await ids(engine, f"{namespace}-x", id=nul) == []
    assert await ids(engine, namespace, id=7) == []
    assert await ids(engine, namespace, min_attempts=2) == []
    assert len(await ids(engine, namespace, min_attempts=1, max_attempts=1)) == 4
    now = datetime.now(UTC)
    assert await ids(engine, namespace, until=now - timedelta(minutes=1)) == []
    assert len(await ids(engine, namespace, since=now - timedelta(minutes=1))) == 4


async def test_a_search_for_an_id_does_not_tell_whether_another_namespace_has_it(
    engine: Engine, namespace: str
) -> None:
    dead = await kill(engine, namespace)
    found = [
        await engine.dead_search.search(f"{namespace}-x", DeadFilter(id=number), TOP, 10)
        for number in (dead, dead + 1024)
    ]
    assert found[0] == found[1]
    assert found[0].seen == 0
    assert (await engine.dead_search.search(namespace, DeadFilter(id=dead), TOP, 10)).seen == 1


async def test_until_is_not_included_and_since_is(engine: Engine, namespace: str) -> None:
    number = await kill(engine, namespace)
    (line,) = (await engine.dead_search.search(namespace, DeadFilter(), TOP, 1)).lines
    assert await ids(engine, namespace, until=line.died_at) == []
    assert await ids(engine, namespace, since=line.died_at) == [number]


@pytest.fixture
async def many(engine: Engine, namespace: str, configuration: Conf) -> int:
    """Letters of two topics, every tenth of which fits."""
    await send(engine, message(namespace, "a"), message(namespace, "b"))
    for place, topic in enumerate(("a", "b"), start=1):
        slot = slot_of(namespace, topic)
        with psycopg.connect(configuration.shard_urls[slot * 2 // 1024], autocommit=True) as shard:
            row = shard.execute(
                "SELECT id FROM topic WHERE namespace = %s AND name = %s", [namespace, topic]
            ).fetchone()
            assert row
            first = place << 20
            bury(shard, row[0], slot, 450, first=first, error="other")
            bury(shard, row[0], slot, 50, first=first + 1000, body={"n": "needle"})
    return 100


@pytest.mark.usefixtures("many")
async def test_a_search_whose_time_is_over_goes_on_where_it_stopped(
    engine: Engine, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await ids(engine, namespace, text="needle")
    assert len(whole) == len(set(whole)) == 100
    monkeypatch.setattr(dead_walk, "BUDGET_S", -1.0)  # a portion of each topic, and no more
    monkeypatch.setattr(dead_walk, "FIRST_TEXT", 14)
    seen: list[int] = []
    place, rounds, empty = TOP, 0, 0
    while True:
        found = await engine.dead_search.search(namespace, DeadFilter(text="needle"), place, 3)
        seen += [line.id for line in found.lines]
        rounds += 1
        empty += not found.lines
        if found.next is None:
            break
        assert found.next < place
        place = found.next
    assert seen == whole
    assert empty > 10
    assert rounds > 60


@pytest.mark.usefixtures("many")
async def test_a_count_stops_where_nobody_needs_to_know(engine: Engine, namespace: str) -> None:
    assert await engine.dead_search.count(namespace, DeadFilter(text="needle"), 1000) == (100, True)
    assert await engine.dead_search.count(namespace, DeadFilter(), 200) == (200, False)
    assert await engine.dead_search.count(namespace, DeadFilter(topic="a"), 1000) == (500, True)


@pytest.mark.usefixtures("many")
async def test_a_statement_that_takes_too_long_is_tried_with_less_and_the_breaker_stays_shut(
    engine: Engine, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_walk, "LIMIT_MS", 1)
    slow = dead_walk.statement("dead_search").replace(
        "WITH seen", "WITH slow AS MATERIALIZED (SELECT pg_sleep(0.1)), seen", 1
    )
    slow = slow.replace("FROM looked LEFT", "FROM slow CROSS JOIN looked LEFT", 1)
    original = dead_walk.statement
    monkeypatch.setattr(dead_walk, "statement", lambda name: slow if name == "dead_search" else original(name))
    for _ in range(3):
        with pytest.raises(ShardUnavailable):
            await engine.dead_search.search(namespace, DeadFilter(text="needle"), TOP, 3)
    assert all(shard.is_up for shard in engine.cluster.shards)


async def test_a_place_between_two_letters_of_one_moment(engine: Engine, namespace: str) -> None:
    """Those of one statement died at the same time; their ids tell them apart."""
    numbers = await send(engine, *(message(namespace) for _ in range(5)))
    found = await engine.dequeue("c", Dequeue(namespace, "t", limit=5))
    await engine.nack("c", [Nack(one.id, namespace, "t", one.receipt, dead=True) for one in found])
    place, seen = TOP, []
    for _ in numbers:
        (line,) = (await engine.dead_search.search(namespace, DeadFilter(), place, 1)).lines
        place = line.place
        seen.append(line.id)
    assert seen == sorted(numbers, reverse=True)
