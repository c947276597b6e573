"""Counts come from deltas that the statements write, and equal what a recount finds."""

import random
from typing import Any

import pytest

from daemons.flusher import Flusher
from daemons.maintenance import _recount
from mqueue.core.messages import DeadChoice, Move, Nack, Place, Settle, StatsPage
from mqueue.engine.engine import Engine
from tests.integration.messages import message, send
from tests.integration.test_engine import take


async def counts(engine: Engine, namespace: str) -> tuple[int, int, int, int]:
    (found,) = await engine.look.stats(StatsPage(namespace, "t"))
    return found.ready, found.scheduled, found.leased, found.dead


async def test_each_step_is_counted(engine: Engine, namespace: str, lapse_now: Any) -> None:
    first, *_ = await send(engine, *(message(namespace, max_retries=0) for _ in range(4)))
    await send(engine, message(namespace, delay_ms=60_000), message(namespace, delay_ms=1_500, priority=9))
    assert await counts(engine, namespace) == (4, 2, 0, 0)
    await take(engine, namespace, limit=3)
    assert await counts(engine, namespace) == (1, 2, 3, 0)
    await engine.ack("c", [Settle(first, namespace, "t")])
    assert await counts(engine, namespace) == (1, 2, 2, 0)
    await lapse_now(first + 1024)
    assert await counts(engine, namespace) == (1, 2, 1, 1)
    await engine.release("c", [Settle(first + 2048, namespace, "t")])
    assert await counts(engine, namespace) == (2, 2, 0, 1)
    await engine.dead.replay("c", DeadChoice(namespace, "t", all=True))
    assert await counts(engine, namespace) == (3, 2, 0, 0)
    await engine.waiting.move("c", first + 2048, Move(namespace, "t", delay_ms=90_000))
    assert await counts(engine, namespace) == (2, 3, 0, 0)
    await engine.waiting.cancel("c", first + 2048, Place(namespace, "t"))
    assert await counts(engine, namespace) == (2, 2, 0, 0)


async def test_the_oldest_age_is_that_of_what_is_due(engine: Engine, namespace: str, shard_0: Any) -> None:
    await send(engine, message(namespace, delay_ms=60_000))
    (found,) = await engine.look.stats(StatsPage(namespace, "t"))
    assert found.oldest_ready_age_ms is None
    await send(engine, message(namespace), message(namespace, priority=0))
    (found,) = await engine.look.stats(StatsPage(namespace, "t"))
    assert found.oldest_ready_age_ms is not None
    assert 0 <= found.oldest_ready_age_ms < 2_000


@pytest.mark.parametrize("seed", range(3))
async def test_counts_equal_a_recount(engine: Engine, namespace: str, lapse_now: Any, seed: int) -> None:
    rng = random.Random(seed)
    flushers = [Flusher(shard) for shard in engine.cluster.shards]
    for _ in range(40):
        some = [
            message(namespace, delay_ms=rng.choice((0, 0, 20_000)), max_retries=1, ttl_ms=rng.choice((None, 1)))
            for _ in range(rng.randint(1, 5))
        ]
        ids = await send(engine, *some)
        found = await take(engine, namespace, limit=rng.randint(1, 4))
        for one in found:
            verb = rng.choice(("ack", "nack", "release", "lapse", "reject", "hold"))
            named = (one.id, namespace, "t", one.receipt)
            if verb == "ack":
                await engine.ack("c", [Settle(*named)])
            elif verb in ("nack", "reject"):
                await engine.nack("c", [Nack(*named, delay_ms=rng.choice((0, 30_000)), dead=verb == "reject")])
            elif verb == "release":
                await engine.release("c", [Settle(*named)])
            elif verb == "lapse":
                await lapse_now(one.id)
        if rng.random() < 0.3:
            await lapse_now(ids[0])  # buries what is past its ttl, too
        if rng.random() < 0.2:
            await engine.dead.replay("c", DeadChoice(namespace, "t", all=True))
        if rng.random() < 0.3:
            await flushers[rng.randint(0, 1)].run_once()
    shard = engine.cluster.shard_of_topic(namespace, "t")
    async with shard.connection() as connection:
        cursor = await connection.execute(
            "SELECT ready, scheduled, leased, dead FROM mq.depth WHERE namespace = %s", [namespace]
        )
        assert await cursor.fetchone() == await counts(engine, namespace)
    assert await _recount() == 0


async def test_a_recount_mends_what_is_wrong(engine: Engine, namespace: str) -> None:
    await send(engine, message(namespace), message(namespace))
    shard = engine.cluster.shard_of_topic(namespace, "t")
    async with shard.connection() as connection:
        await connection.execute(
            "INSERT INTO tally_delta SELECT id, 0, 5, 1, 2 FROM topic WHERE namespace = %s", [namespace]
        )
    assert await counts(engine, namespace) != (2, 0, 0, 0)
    assert await _recount() == 1
    assert await counts(engine, namespace) == (2, 0, 0, 0)
    assert await _recount() == 0


async def test_folding_changes_no_count_and_drops_what_has_come_to_nothing(engine: Engine, namespace: str) -> None:
    await send(engine, *(message(namespace) for _ in range(3)))
    found = await take(engine, namespace, limit=2)
    await engine.ack("c", [Settle(one.id, namespace, "t") for one in found])
    before = await counts(engine, namespace)
    shard = engine.cluster.shard_of_topic(namespace, "t")
    flusher = Flusher(shard)
    for _ in range(20):
        await flusher.run_once()
    assert await counts(engine, namespace) == before == (1, 0, 0, 0)
    async with shard.connection() as connection:
        cursor = await connection.execute(
            "SELECT waiting, leased, dead FROM tally JOIN topic ON topic.id = tally.topic WHERE namespace = %s",
            [namespace],
        )
        assert await cursor.fetchall() == [(1, 0, 0)]
