"""What /metrics looks up: honest totals in a bounded number of series, and nothing where nobody knows."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from psycopg import AsyncConnection

from mqueue.api.exposition import Exposition
from mqueue.core.conf import Conf
from mqueue.core.metrics import OTHER
from mqueue.engine.depths import Depths
from mqueue.engine.engine import Engine
from shards.cluster import Cluster
from tests.acceptance.scrape import Scrape
from tests.integration.messages import message, send
from tests.servers import conf_of, worker_number


@pytest.fixture
def fresh(fresh_databases: str) -> Conf:
    return conf_of(fresh_databases, worker_number())


@pytest.fixture
async def opened() -> AsyncIterator[Callable[[Conf], "asyncio.Future[Engine]"]]:
    engines = []

    async def open_(conf: Conf) -> Engine:
        engines.append(Engine(conf))
        await engines[-1].open()
        return engines[-1]

    yield open_  # type: ignore[misc]
    for engine in engines:
        await engine.close()


async def shown(conf: Conf, cluster: Cluster) -> Scrape:
    exposition = Exposition(conf, cluster, None)
    try:
        return Scrape((await exposition.answer(""))[2].decode())
    finally:
        await exposition.close()


async def test_the_deepest_topics_are_shown_and_the_sum_is_honest(fresh: Conf, opened: Callable) -> None:
    engine = await opened(fresh)
    for n in range(12):
        await send(engine, *(message("n", f"t{n}") for _ in range(n + 1)))
    found = await shown(replace(fresh, metrics=replace(fresh.metrics, topics=8)), engine.cluster)
    depths = {s.labels["topic"]: s.value for s in found.samples if s.name == "mqueue_ready_queue_depth"}
    assert sum(depths.values()) == sum(range(1, 13))
    assert len(depths) <= 9
    assert all(value == int(topic[1:]) + 1 for topic, value in depths.items() if topic != OTHER)
    assert depths["t11"] == 12
    ages = [s.value for s in found.samples if s.name == "mqueue_oldest_ready_age_seconds"]
    assert len(ages) == len(depths)
    assert min(ages) > 0


async def test_the_topic_with_the_oldest_message_is_shown_however_shallow(fresh: Conf, opened: Callable) -> None:
    engine = await opened(fresh)
    await send(engine, message("n", "old"))
    for n in range(20):
        await send(engine, *(message("n", f"t{n}") for _ in range(3)))
    found = await shown(replace(fresh, metrics=replace(fresh.metrics, topics=8)), engine.cluster)
    assert found.get("mqueue_ready_queue_depth", topic="old") == 1


async def test_an_empty_topic_is_shown_as_empty(fresh: Conf, opened: Callable) -> None:
    engine = await opened(fresh)
    await send(engine, message("n", "t", delay_ms=60_000))
    found = await shown(fresh, engine.cluster)
    assert found.get("mqueue_ready_queue_depth", namespace="n", topic="t") == 0
    assert found.get("mqueue_scheduled", namespace="n", topic="t") == 1
    assert found.get("mqueue_oldest_ready_age_seconds", namespace="n", topic="t") == 0


async def test_topics_of_a_shard_that_is_down_are_absent_and_the_others_stay(fresh: Conf, opened: Callable) -> None:
    whole = await opened(fresh)
    names = [f"t{n}" for n in range(8)]
    await send(whole, *(message("n", name) for name in names))
    of_shard_0 = {name for name in names if whole.cluster.shard_of_topic("n", name).number == 0}
    broken = replace(fresh, shard_urls=(fresh.shard_urls[0], "postgresql://u@127.0.0.1:1/none"))
    cluster = (await opened(broken)).cluster
    while cluster.shards[1].is_up:
        await asyncio.sleep(0.02)
    found = await shown(broken, cluster)
    assert {s.labels["topic"] for s in found.samples if s.name == "mqueue_ready_queue_depth"} == of_shard_0
    assert [found.get("mqueue_shard_health", shard=n) for n in ("0", "1", "control", "redis")] == [1, 0, 1, 1]
    assert found.get("mqueue_depth_age_seconds", shard="1") is None


async def test_a_count_that_takes_too_long_is_given_up_and_does_not_make_the_shard_look_down(
    fresh: Conf, opened: Callable
) -> None:
    shard = (await opened(fresh)).cluster.shards[0]
    depths = Depths(shard, 10, 100)
    async with await AsyncConnection.connect(fresh.shard_urls[0]) as other:
        await other.execute("LOCK TABLE delivery")
        for _ in range(4):  # the breaker would open at the third
            assert await depths.read() is None
            depths._rests_until = 0
    assert shard.is_up
    assert await depths.read() is not None


async def test_counting_rests_ten_times_as_long_as_it_took(fresh: Conf, opened: Callable) -> None:
    depths = Depths((await opened(fresh)).cluster.shards[0], 10, 5000)
    first = await depths.read()
    assert first
    took = 10 * 0.001
    assert depths._rests_until > first.at + took
    depths._rests_until += 60
    assert await depths.read() is first


async def test_two_that_scrape_at_once_share_the_work(fresh: Conf, opened: Callable) -> None:
    exposition = Exposition(fresh, (await opened(fresh)).cluster, None)
    first, second = await asyncio.gather(exposition._families(), exposition._families())
    assert first is second
    await exposition.close()


async def test_a_transaction_that_holds_back_the_readers_of_the_log_is_shown_with_its_age(
    fresh: Conf, opened: Callable
) -> None:
    engine = await opened(fresh)

    async def held_for() -> float:
        found = [s for s in (await shown(fresh, engine.cluster)).samples if s.name == "mqueue_log_horizon_seconds"]
        return max(s.value for s in found if s.labels["shard"] == "0")

    async with await AsyncConnection.connect(fresh.shard_urls[0]) as stalled:
        await stalled.execute("SELECT pg_current_xact_id()")
        began = time.monotonic()
        await asyncio.sleep(1.5)
        assert await held_for() >= 1.5
        await stalled.rollback()
    async with asyncio.timeout(10):  # another test's transaction on the same server may be as old
        while await held_for() >= time.monotonic() - began:
            await asyncio.sleep(0.1)


async def test_who_asks_for_openmetrics_gets_it(fresh: Conf, opened: Callable) -> None:
    exposition = Exposition(fresh, (await opened(fresh)).cluster, None)
    _, headers, body = await exposition.answer("application/openmetrics-text; version=1.0.0")
    assert headers["content-type"].startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    await exposition.close()
