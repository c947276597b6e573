"""Lines of waiting consumers, and the heads behind them, where several things happen at once."""

import asyncio
import threading
import time
from typing import Any

import psycopg
import pytest

from daemons import prefetcher, sparing
from daemons.leases import LeaseDaemon
from mqueue.core.conf import Conf
from mqueue.core.errors import NotFound, ShardUnavailable, Undecided
from mqueue.core.messages import Delivered, Dequeue, Extend, Move, Settle
from mqueue.engine import claims, failures, inserts
from mqueue.engine.engine import Engine
from mqueue.engine.line import Line, Waiter
from mqueue.engine.settle import Settled
from mqueue.engine.source import Source
from shards.routing import SLOTS, slot_of
from tenants.snapshot import TopicSettings
from tests.integration.messages import key_for, message, send
from tests.integration.test_hot import Topic, bodies, redis, take, topic
from tests.overdue import end_overdue

__all__ = ["redis", "topic"]  # fixtures


def lines_of(engine: Engine) -> Any:
    return engine.dequeue.__self__._lines  # type: ignore[attr-defined]


async def empty(engine: Engine, namespace: str) -> None:
    """A topic that is there, and has nothing."""
    await send(engine, message(namespace))
    (found,) = await take(engine, namespace)
    await engine.ack("c", [Settle(found.id, namespace, "t")])


class Ear:
    hears_arrivals = True


class Failing:
    """A source whose second claim fails."""

    def __init__(self) -> None:
        self.claims = 0

    async def claim(self, waiters: list[Waiter]) -> tuple[list[list[Delivered]], bool]:
        self.claims += 1
        claim = self.claims
        await asyncio.sleep(0.05)
        if claim == 2:
            raise ShardUnavailable
        return [[] for _ in waiters], True

    async def next_due_in(self) -> float | None:
        return 0.2

    async def give_back(self, found: list[Delivered]) -> None: ...


async def test_a_claim_that_fails_stops_no_timer_of_others() -> None:
    source = Failing()
    line = Line(source, Ear(), lambda _: None, lambda _: None)
    first = asyncio.create_task(line.take(Dequeue("n", "t", wait_ms=5_000), "a"))
    await asyncio.sleep(0.02)
    with pytest.raises(ShardUnavailable):
        await line.take(Dequeue("n", "t", wait_ms=5_000), "b")
    await asyncio.sleep(0.7)
    assert source.claims >= 3
    first.cancel()


async def test_a_line_in_use_is_not_forgotten(engine: Engine, namespace: str) -> None:
    """A poll comes at the moment at which another has been served."""
    await empty(engine, namespace)
    lines = lines_of(engine)
    for _ in range(15):
        first = asyncio.create_task(take(engine, namespace, wait_ms=20_000))
        await asyncio.sleep(0.03)
        ((number, _),) = lines.items()

        async def second(number: int = number) -> list[Delivered]:
            while number in lines:
                await asyncio.sleep(0)
            return await take(engine, namespace, wait_ms=3_000)

        other = asyncio.create_task(second())
        await send(engine, message(namespace))
        await first
        await asyncio.sleep(0.03)
        assert number in lines
        other.cancel()
        await asyncio.sleep(0.01)


async def test_a_consumer_that_leaves_as_it_is_served_gives_back(engine: Engine, namespace: str) -> None:
    await empty(engine, namespace)
    poll = asyncio.create_task(take(engine, namespace, wait_ms=20_000))
    await asyncio.sleep(0.3)
    (line,) = lines_of(engine).values()
    distribute = line._distribute

    def and_leave(group: Any, found: Any, wakes: int) -> None:
        distribute(group, found, wakes)
        if any(found):
            poll.cancel()

    line._distribute = and_leave
    await send(engine, message(namespace))
    with pytest.raises(asyncio.CancelledError):
        await poll
    await asyncio.sleep(0.3)
    (found,) = await take(engine, namespace)
    assert found.attempt == 1


async def test_a_lease_may_be_extended_twice_at_once(engine: Engine, namespace: str) -> None:
    await send(engine, message(namespace))
    (found,) = await take(engine, namespace)
    extend = Extend(found.id, namespace, "t", found.receipt)
    outcomes = [await engine.extend("c", [extend, extend])]
    outcomes += await asyncio.gather(*(engine.extend("c", [extend]) for _ in range(6)))
    assert {outcome.state for part in outcomes for outcome in part if isinstance(outcome, Settled)} == {"extended"}
    assert sum(map(len, outcomes)) == sum(isinstance(outcome, Settled) for part in outcomes for outcome in part)


async def test_a_lapse_is_judged_before_a_move(engine: Engine, namespace: str) -> None:
    """Otherwise a message whose attempts are used up would come once more."""
    (number,) = await send(engine, message(namespace, max_retries=0))
    await take(engine, namespace)
    shard = engine.cluster.shard_of_id(number)
    async with shard.connection() as connection:
        await connection.execute("UPDATE delivery SET until = now() WHERE id = %s", [number])
    with pytest.raises(NotFound):  # it is dead
        await engine.waiting.move("m", number, Move(namespace, "t", priority=1))
    assert await take(engine, namespace) == []


async def test_a_fence_whose_maker_died_blocks_no_key(engine: Engine, namespace: str) -> None:
    await send(engine, message(namespace))
    home, key_home = (engine.cluster.shard_of_topic(namespace, name) for name in ("t", "k"))
    lost = await engine.cluster.ids.take(1) * SLOTS + slot_of(namespace, "t")
    async with home.connection() as connection:
        row: Any = await (await connection.execute("SELECT id FROM topic WHERE namespace = %s", [namespace])).fetchone()
        await connection.execute("INSERT INTO keyed (id, fenced) VALUES (%s, true)", [lost])
    async with key_home.connection() as connection:
        await connection.execute(
            "INSERT INTO idempotency (namespace, key, id, topic) VALUES (%s, 'k', %s, %s)", [namespace, lost, row[0]]
        )
    result = await engine.enqueue("p", [message(namespace, idempotency_key="k")])
    assert result.error is None
    assert result.ids != [lost]


@pytest.mark.parametrize("beside", [True, False], ids=["beside", "apart"])
async def test_a_duplicate_is_not_answered_before_its_message_can_be_found(
    engine: Engine, topic: Topic, configuration: Conf, monkeypatch: Any, beside: bool
) -> None:
    """The first sender is stopped between its commit and its offer."""
    other, go = Engine(configuration), asyncio.Event()
    await other.open()
    hot = other.hot[other.cluster.shards[topic.shard_number]]
    offer = hot.offer

    async def held(offers: Any) -> None:
        await go.wait()
        await offer(offers)

    monkeypatch.setattr(hot, "offer", held)
    once = message(topic.namespace, body="once", idempotency_key=key_for(topic.namespace, beside=beside))
    first = asyncio.create_task(other.enqueue("p", [once]))
    await asyncio.sleep(0.3)
    assert (await engine.enqueue("p", [once])).duplicates == 1
    assert bodies(await take(engine, topic.namespace)) == ["once"]
    go.set()
    await first
    await other.close()


async def test_a_lost_offer_is_repaid_by_a_process_that_has_nothing_more_to_say(
    engine: Engine, topic: Topic, configuration: Conf
) -> None:
    other = Engine(configuration)
    await other.open()
    other.hot[other.cluster.shards[topic.shard_number]]._sets._failed(TimeoutError())
    await send(other, message(topic.namespace, body="unoffered"))
    await asyncio.sleep(1.2)
    assert bodies(await take(engine, topic.namespace)) == ["unoffered"]
    await other.close()


@pytest.mark.parametrize(
    ("room", "call"),
    [(inserts, "with_partitions"), (failures, "with_partitions"), (claims, "change")],
    ids=["enqueue", "lapse", "release"],
)
async def test_what_waits_is_found_though_the_answer_of_its_commit_was_lost(
    engine: Engine, topic: Topic, monkeypatch: Any, room: Any, call: str
) -> None:
    sent = [message(topic.namespace, body=1), message(topic.namespace, body=2, idempotency_key="k")]
    found = []
    if room is not inserts:
        await end_overdue(engine, topic.shard)
        await send(engine, *sent)
        found = await take(engine, topic.namespace, limit=2)
    real = getattr(room, call)

    async def losing(*arguments: Any) -> None:
        await real(*arguments)
        raise Undecided

    monkeypatch.setattr(room, call, losing)
    if room is inserts:
        result = await engine.enqueue("p", sent)
        assert (result.error, result.duplicates) == (None, 0)
    elif room is failures:
        async with topic.shard.connection() as connection:
            await connection.execute(
                "UPDATE delivery SET until = now() WHERE id = ANY(%s)", [[one.id for one in found]]
            )
        await LeaseDaemon(topic.shard, engine.hot[topic.shard], engine.settings.topic).run_once()
    else:
        leases = [(one.id, 1) for one in found]
        await engine.dequeue.__self__._claims[topic.shard].release(topic.number, leases)  # type: ignore[attr-defined]
    monkeypatch.undo()
    assert sorted(bodies(await take(engine, topic.namespace, limit=5))) == [1, 2]


async def test_a_lease_daemon_that_stands_still_holds_nothing_for_long(
    engine: Engine, topic: Topic, configuration: Conf, monkeypatch: Any
) -> None:
    """Stopped, or on a machine that froze, between its two statements: its successor finds the rows that it locked."""
    await end_overdue(engine, topic.shard)
    (number,) = await send(engine, message(topic.namespace))
    await take(engine, topic.namespace)
    async with topic.shard.connection() as connection:
        await connection.execute("UPDATE delivery SET until = now() WHERE id = %s", [number])
    url, freed, frozen = configuration.shard_urls[topic.shard_number], threading.Event(), threading.Event()

    def succeed() -> None:
        frozen.wait(10)
        with psycopg.connect(url, autocommit=True) as successor:
            while not successor.execute("SELECT FROM delivery WHERE id = %s FOR UPDATE SKIP LOCKED", [number]).rowcount:
                time.sleep(0.02)
        freed.set()

    successor = threading.Thread(target=succeed)
    successor.start()
    decided, took = failures._decided, []

    def freeze(verdicts: Any) -> Any:
        began = time.monotonic()
        frozen.set()
        assert freed.wait(20)
        took.append(time.monotonic() - began)
        return decided(verdicts)

    with monkeypatch.context() as patch:
        patch.setattr(failures, "_decided", freeze)
        await LeaseDaemon(topic.shard, engine.hot[topic.shard], engine.settings.topic).run_once()
    successor.join()
    assert took[0] < 8  # two seconds, and ten without
    await end_overdue(engine, topic.shard)
    assert bodies(await take(engine, topic.namespace)) == [1]


async def test_a_failed_claim_puts_its_refs_back(engine: Engine, topic: Topic, monkeypatch: Any) -> None:
    await send(engine, *(message(topic.namespace, body=n) for n in range(3)))

    async def failing(*_: Any) -> None:
        raise ShardUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(claims, "change", failing)
        with pytest.raises(ShardUnavailable):
            await take(engine, topic.namespace)
    assert bodies(await take(engine, topic.namespace)) == [0]


async def test_a_clock_that_runs_far_ahead_loses_nothing(engine: Engine, topic: Topic) -> None:
    await send(engine, message(topic.namespace, body="later", delay_ms=1_500))
    engine.hot[topic.shard].clock._offset_us += 5_000_000
    assert await take(engine, topic.namespace) == []
    began = time.monotonic()
    assert bodies(await take(engine, topic.namespace, wait_ms=5_000)) == ["later"]
    assert 1 < time.monotonic() - began < 2.5


async def test_an_answer_that_is_cut_leaves_others_their_share(
    engine: Engine, namespace: str, monkeypatch: Any
) -> None:
    for room in ("claims", "source"):
        monkeypatch.setattr(f"mqueue.engine.{room}.MAX_REQUEST", 50)
    await send(engine, *(message(namespace, body="x" * 8) for _ in range(100)))
    found = await asyncio.gather(*(take(engine, namespace, limit=600) for _ in range(4)))
    assert [len(part) for part in found] == [5] * 4


async def test_the_page_from_the_start_turns_at_the_bound(engine: Engine, topic: Topic, monkeypatch: Any) -> None:
    for name, number in (("FILL", 20), ("LOW", 10), ("PAGE", 10)):
        monkeypatch.setattr(prefetcher, name, number)
    monkeypatch.setattr(sparing, "SHARE", 0)
    topic.prefetcher._paging = sparing.Sparing(0)
    await topic.redis.delete(await topic.key("t"), await topic.key("r"))
    await send(engine, *(message(topic.namespace, body=n) for n in range(400)))
    for _ in range(4):
        await topic.prefetcher.run_once()
    ready = await topic.key("r")
    (first,) = await topic.redis.zrange(ready, 0, 0)
    await topic.redis.zrem(ready, first)  # as if its producer had died before the offer
    for _ in range(6):
        await topic.prefetcher.run_once()
    assert await topic.redis.zscore(ready, first) is not None


async def test_many_messages_of_one_time_do_not_stop_the_horizon(
    engine: Engine, topic: Topic, monkeypatch: Any
) -> None:
    monkeypatch.setattr(prefetcher, "AHEAD_REFS", 5)
    await topic.redis.hset(await topic.key("t"), "horizon", engine.hot[topic.shard].clock.now_us())  # type: ignore[misc]
    await send(engine, *(message(topic.namespace, delay_ms=600, priority=200) for _ in range(12)))
    for _ in range(30):
        await topic.prefetcher.run_once()
        await asyncio.sleep(0.05)
    assert int((await topic.head())["horizon"]) > engine.hot[topic.shard].clock.now_us()


async def test_a_poll_of_a_paused_topic_looks_once_in_a_while(engine: Engine, topic: Topic, monkeypatch: Any) -> None:
    """Also when something has come due meanwhile, which a topic that is not paused would look for at once."""
    await send(engine, message(topic.namespace, delay_ms=200))
    assert await engine.dequeue("c", Dequeue(topic.namespace, "t")) == []  # the head knows what comes next
    monkeypatch.setitem(engine.settings._topics, topic.number, TopicSettings(paused=True))
    looks = 0
    claim = Source.claim

    async def counted(source: Source, waiters: list[Waiter]) -> Any:
        nonlocal looks
        looks += 1
        return await claim(source, waiters)

    monkeypatch.setattr(Source, "claim", counted)
    assert await engine.dequeue("c", Dequeue(topic.namespace, "t", wait_ms=1500)) == []
    assert 1 <= looks < 30  # ten a second while wakes are not heard yet
