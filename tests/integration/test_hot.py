"""The heads of topics in Redis: complete before their bound, in order, and of no consequence when they are wrong."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import psycopg
import pytest
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection as Connection
from redis.exceptions import ConnectionError  # noqa: A004  redis's own

from daemons import prefetcher
from daemons.prefetcher import Prefetcher
from daemons.sparing import Sparing
from mqueue.core.conf import Conf
from mqueue.core.errors import ShardUnavailable
from mqueue.core.messages import Delivered, Dequeue, Move, Nack, Place, Settle
from mqueue.engine.claims import Claims, Lease
from mqueue.engine.coalesce import ALIKE
from mqueue.engine.engine import Engine
from mqueue.hot import careful, keys
from mqueue.hot.connection import connect
from mqueue.hot.refs import read
from mqueue.hot.sets import SOUGHT_S, Offer
from tests.integration.messages import message, send


async def take(engine: Engine, namespace: str, limit: int = 1, **more: Any) -> list[Delivered]:
    return await engine.dequeue("c", Dequeue(namespace, "t", limit=limit, **more))


def bodies(found: list[Delivered]) -> list[Any]:
    return [msgspec.json.decode(one.body) for one in found]  # type: ignore[arg-type]


class Topic:
    """One topic, its prefetcher, and what Redis has of it."""

    def __init__(self, engine: Engine, redis: "Redis", namespace: str) -> None:
        self.engine, self.redis, self.namespace = engine, redis, namespace
        self.shard = engine.cluster.shard_of_topic(namespace, "t")
        self.shard_number = engine.cluster.shards.index(self.shard)
        self.prefetcher = self.new_prefetcher()
        self.number = 0

    def new_prefetcher(self) -> Prefetcher:
        building = self.engine.hot.building(self.shard_number)
        return Prefetcher(self.shard, self.engine.hot[self.shard], building)

    async def warm(self) -> None:
        """One poll registers demand; the prefetcher then builds the set."""
        if not self.number:
            await send(self.engine, message(self.namespace))
            (found,) = await take(self.engine, self.namespace)
            await self.engine.ack("c", [Settle(found.id, self.namespace, "t")])
            async with self.shard.connection() as connection:
                row = await (
                    await connection.execute("SELECT id FROM topic WHERE namespace = %s", [self.namespace])
                ).fetchone()
            assert row
            self.number = row[0]
        for _ in range(3):
            await self.prefetcher.run_once()
        assert (await self.head())["bound"] is not None

    async def key(self, kind: str) -> str:
        generation = await self.redis.get(keys.generation(self.shard_number))
        return f"{keys.prefix(self.shard_number)}{generation}:{kind}:{self.number}"

    async def head(self) -> dict[str, str]:
        found: dict[str, str] = await self.redis.hgetall(await self.key("t"))  # type: ignore[misc]
        return found

    async def size(self, kind: str) -> int:
        return int(await self.redis.zcard(await self.key(kind)))


@pytest.fixture
async def redis(configuration: Conf) -> "AsyncIterator[Redis]":
    client = connect(configuration.redis, timeout_s=2, text=True)
    for number in range(2):
        await client.delete(keys.owner(number))  # of the test before
    yield client
    await client.aclose()


@pytest.fixture
async def topic(engine: Engine, redis: "Redis", namespace: str) -> AsyncIterator[Topic]:
    topic = Topic(engine, redis, namespace)
    await topic.warm()
    yield topic
    await topic.prefetcher.leave()


async def test_what_is_added_to_a_hot_topic_is_in_its_set_before_the_answer(engine: Engine, topic: Topic) -> None:
    await send(engine, message(topic.namespace), message(topic.namespace, delay_ms=5_000))
    assert (await topic.size("r"), await topic.size("s")) == (1, 1)
    assert len(await take(engine, topic.namespace, limit=10)) == 1
    await asyncio.sleep(0.05)
    assert (await topic.size("r"), await topic.size("k")) == (0, 0)


async def test_claimers_of_the_same_refs_do_not_wait_for_each_other(engine: Engine, topic: Topic) -> None:
    hot, lease = engine.hot[topic.shard], Lease(30_000, "c", is_traced=True)
    one, other = (Claims(topic.shard, hot, ALIKE) for _ in range(2))
    for _ in range(10):
        await send(engine, *(message(topic.namespace) for _ in range(300)))
        wanted = [(read(text), lease) for text in (await hot.pop(topic.number, 300, "n")).refs]
        found = await asyncio.gather(one.refs(wanted, "n"), other.refs(wanted[::-1], "n"))
        assert sum(row is not None for part in found for row in part) == len(wanted) == 300


async def test_a_hot_topic_needs_no_scan_of_the_table(engine: Engine, topic: Topic, monkeypatch: Any) -> None:
    await send(engine, *(message(topic.namespace, body=n) for n in range(5)))
    monkeypatch.setattr("mqueue.engine.claims.Claims.head", None)
    assert bodies(await take(engine, topic.namespace, limit=3)) == [0, 1, 2]
    assert bodies(await take(engine, topic.namespace, limit=3)) == [3, 4]
    assert bodies(await take(engine, topic.namespace, limit=3)) == []


async def test_the_more_urgent_that_arrives_later_comes_first(engine: Engine, topic: Topic) -> None:
    await send(engine, *(message(topic.namespace, body=n) for n in range(3)))
    await send(engine, message(topic.namespace, body="urgent", priority=1))
    assert bodies(await take(engine, topic.namespace, limit=2)) == ["urgent", 0]


async def test_a_message_past_the_bound_waits_for_those_before_it(
    engine: Engine, topic: Topic, monkeypatch: Any
) -> None:
    monkeypatch.setattr(prefetcher, "FILL", 5)
    monkeypatch.setattr(prefetcher, "LOW", 3)
    await topic.redis.delete(await topic.key("t"), await topic.key("r"))
    await send(engine, *(message(topic.namespace, body=n) for n in range(20)))
    await topic.prefetcher.run_once()
    assert await topic.size("r") == 5
    await send(engine, message(topic.namespace, body="late"))
    assert await topic.size("r") == 5
    assert bodies(await take(engine, topic.namespace, limit=12)) == list(range(12))
    while await topic.prefetcher.run_once() == 0:
        pass
    assert bodies(await take(engine, topic.namespace, limit=20)) == [*range(12, 20), "late"]


async def test_what_arrives_during_a_fill_is_not_passed_over(engine: Engine, topic: Topic) -> None:
    building = topic.prefetcher._building
    await topic.redis.hset(await topic.key("t"), "bound", "")  # type: ignore[misc]
    begun = await building.begin_fill(topic.number)
    assert begun
    await send(engine, message(topic.namespace, body="meanwhile"))
    assert await building.end_fill(topic.number, begun[0], "g", [])
    assert bodies(await take(engine, topic.namespace)) == ["meanwhile"]


async def test_a_fill_that_another_has_overtaken_counts_for_nothing(topic: Topic) -> None:
    building = topic.prefetcher._building
    await topic.redis.hset(await topic.key("t"), "bound", "")  # type: ignore[misc]
    first, second = await building.begin_fill(topic.number), await building.begin_fill(topic.number)
    assert first
    assert second
    assert not await building.end_fill(topic.number, first[0], "g", [])
    assert await building.end_fill(topic.number, second[0], "g", [])


async def test_a_look_ahead_finds_what_was_scheduled_before(engine: Engine, topic: Topic) -> None:
    await topic.redis.delete(await topic.key("t"), await topic.key("s"))
    await send(engine, message(topic.namespace, body="soon", delay_ms=300, priority=200))
    await send(engine, message(topic.namespace, body="much later", delay_ms=3_600_000))
    await topic.warm()
    assert await topic.size("s") == 1
    assert bodies(await take(engine, topic.namespace, wait_ms=2_000)) == ["soon"]


async def test_a_horizon_that_has_passed_makes_the_topic_cold(engine: Engine, topic: Topic) -> None:
    await topic.redis.hset(await topic.key("t"), "horizon", "1")  # type: ignore[misc]
    async with topic.shard.connection() as connection:  # a writer that died before its offer
        await send(engine, message(topic.namespace, body=1))
        await connection.execute("SELECT 1")
    await topic.redis.delete(await topic.key("r"))
    assert bodies(await take(engine, topic.namespace)) == [1]


async def test_a_row_that_nobody_offered_is_found_by_the_page_from_the_start(engine: Engine, topic: Topic) -> None:
    (number,) = await send(engine, message(topic.namespace, body="orphan"))
    await topic.redis.delete(await topic.key("r"))
    assert await take(engine, topic.namespace) == []
    topic.prefetcher._paging = Sparing(0)
    await topic.prefetcher.run_once()
    (found,) = await take(engine, topic.namespace)
    assert found.id == number


async def test_refs_of_a_claimer_that_died_come_back(engine: Engine, topic: Topic) -> None:
    await send(engine, message(topic.namespace, body="taken"))
    hot = engine.hot[topic.shard]
    assert len((await hot.pop(topic.number, 1, topic.namespace)).refs) == 1
    assert await take(engine, topic.namespace) == []
    await asyncio.sleep(1.05)
    assert bodies(await take(engine, topic.namespace)) == ["taken"]


async def test_pops_at_the_same_time_put_nothing_of_each_other_back(engine: Engine, topic: Topic) -> None:
    """One that was lost is put back by the next; one that is under way is not lost."""
    await send(engine, *(message(topic.namespace) for _ in range(40)))
    hot, popped = engine.hot[topic.shard], list[str]()
    for _ in range(20):
        first = asyncio.create_task(hot.pop(topic.number, 1, "one"))
        for _ in range(3):
            await asyncio.sleep(0)  # it is on its way
        second = await hot.pop(topic.number, 1, "other")
        popped += [*(await first).refs, *second.refs]
    assert len(popped) == len(set(popped)) == 40


async def test_a_ref_that_is_not_due_by_the_servers_clock_is_not_lost(engine: Engine, topic: Topic) -> None:
    await send(engine, message(topic.namespace, body="not yet", delay_ms=400))
    hot = engine.hot[topic.shard]
    monkey = hot.clock._offset_us
    hot.clock._offset_us += 350_000  # ours is ahead
    try:
        (found,) = await take(engine, topic.namespace, wait_ms=2_000)
    finally:
        hot.clock._offset_us = monkey
    assert found.deliver_after
    assert (found.lease_expires_at - found.deliver_after).total_seconds() >= 30


async def test_a_ref_that_comes_due_while_its_claim_fails_is_not_lost(
    engine: Engine, topic: Topic, monkeypatch: Any
) -> None:
    """Not due at the claim, and due when somebody asks why."""
    await topic.warm()
    await send(engine, message(topic.namespace, body="in a moment", delay_ms=400))
    hot, asks = engine.hot[topic.shard], Claims.waiting_among

    async def ask_later(*arguments: Any) -> Any:
        await asyncio.sleep(0.5)
        return await asks(*arguments)

    monkeypatch.setattr(Claims, "waiting_among", ask_later)
    monkeypatch.setattr(hot.clock, "_offset_us", hot.clock._offset_us + 450_000)  # ours is ahead
    assert bodies(await take(engine, topic.namespace)) == ["in a moment"]


async def test_a_pop_whose_answer_was_lost_holds_nothing_back(engine: Engine, topic: Topic, monkeypatch: Any) -> None:
    """It was done, and the connection broke before anybody knew what it took."""
    await topic.warm()
    await send(engine, message(topic.namespace, body="first"))
    reads, is_lost = Connection.read_response, False

    async def lose_one(self: Connection, *arguments: Any, **more: Any) -> Any:
        nonlocal is_lost
        answer = await reads(self, *arguments, **more)
        if not is_lost and isinstance(answer, list) and answer and isinstance(answer[0], list):
            is_lost = True
            await self.disconnect(nowait=True)
            raise ConnectionError("cut")
        return answer

    monkeypatch.setattr(Connection, "read_response", lose_one)
    assert bodies(await take(engine, topic.namespace)) == ["first"]
    assert is_lost


async def test_a_moved_message_is_not_handed_out_at_its_old_place(engine: Engine, topic: Topic) -> None:
    first, second = await send(engine, message(topic.namespace, body=1), message(topic.namespace, body=2))
    await engine.waiting.move("m", first, Move(topic.namespace, "t", priority=200))
    assert bodies(await take(engine, topic.namespace, limit=2)) == [2, 1]
    third, _ = await send(engine, message(topic.namespace, body=3), message(topic.namespace, body=4))
    await engine.waiting.cancel("m", third, Place(topic.namespace, "t"))
    assert bodies(await take(engine, topic.namespace, limit=2)) == [4]
    assert second


async def test_what_is_given_back_is_in_its_old_place_at_once(engine: Engine, topic: Topic) -> None:
    await send(engine, *(message(topic.namespace, body=n) for n in range(3)))
    (found,) = await take(engine, topic.namespace)
    await engine.release("c", [Settle(found.id, topic.namespace, "t")])
    (again,) = await take(engine, topic.namespace)
    assert (again.id, again.attempt) == (found.id, 1)
    await engine.nack("c", [Nack(again.id, topic.namespace, "t", delay_ms=0)])
    assert bodies(await take(engine, topic.namespace, limit=3)) == [1, 2, 0]


async def test_a_set_that_has_grown_is_trimmed_and_nothing_is_lost(
    engine: Engine, topic: Topic, monkeypatch: Any
) -> None:
    for name, number in (("MOST", 10), ("KEEP", 4), ("LOW", 2), ("FILL", 6)):
        monkeypatch.setattr(prefetcher, name, number)
    await send(engine, *(message(topic.namespace, body=n) for n in range(30)))
    assert await topic.size("r") == 30
    await topic.prefetcher.run_once()
    assert await topic.size("r") == 4
    seen = []
    while found := await take(engine, topic.namespace, limit=3):
        seen += bodies(found)
        await topic.prefetcher.run_once()
    assert seen == list(range(30))


async def test_a_topic_that_nobody_asks_for_goes_cold(topic: Topic) -> None:
    await topic.redis.zadd(keys.demand(topic.shard_number), {str(topic.number): 1})
    topic.prefetcher._paging = Sparing(0)
    await topic.prefetcher.run_once()
    assert await topic.redis.exists(await topic.key("t"), await topic.key("r")) == 0
    assert await topic.redis.zscore(keys.demand(topic.shard_number), str(topic.number)) is None


async def test_a_repeated_key_takes_no_message_out_of_anybody_s_hands(engine: Engine, topic: Topic) -> None:
    """It is offered again, since who added it may have died before he did; or a second poll would get it."""
    keyed = message(topic.namespace, body="kept", idempotency_key="k")
    (number,) = await send(engine, keyed)
    hot = engine.hot[topic.shard]
    head = await hot.pop(topic.number, 1, topic.namespace)
    assert [read(ref).id for ref in head.refs] == [number]
    assert await send(engine, keyed) == [number]
    assert await topic.size("r") == 0
    await hot.offer([Offer(topic.number, 0, head.refs[0])])  # he gives it back
    assert bodies(await take(engine, topic.namespace)) == ["kept"]


async def test_a_repeated_key_brings_what_nobody_offered(engine: Engine, topic: Topic) -> None:
    keyed = message(topic.namespace, body="kept", idempotency_key="k")
    (number,) = await send(engine, keyed)
    await topic.redis.delete(await topic.key("r"))
    assert await send(engine, keyed) == [number]
    assert bodies(await take(engine, topic.namespace)) == ["kept"]


async def test_the_sets_of_another_run_of_redis_are_not_believed_for_a_moment(engine: Engine, topic: Topic) -> None:
    """As after a restart from an old file: sets of the run before may miss what was offered since."""
    old = f"{'0' * 16}-feed"
    await send(engine, *(message(topic.namespace, body=body) for body in ("kept", "kept too")))
    await topic.redis.rename(await topic.key("t"), f"{keys.prefix(topic.shard_number)}{old}:t:{topic.number}")
    await topic.redis.set(keys.generation(topic.shard_number), old)
    assert bodies(await take(engine, topic.namespace)) == ["kept"]
    topic.prefetcher._looked_at_generation = 0
    await topic.prefetcher.run_once()
    assert await topic.redis.get(keys.generation(topic.shard_number)) != old
    assert [key async for key in topic.redis.scan_iter(match=f"*{old}*")] == []
    assert bodies(await take(engine, topic.namespace)) == ["kept too"]


async def test_scripts_that_are_forgotten_make_nothing_cold(engine: Engine, topic: Topic) -> None:
    await send(engine, message(topic.namespace, body="kept"))
    await topic.redis.script_flush()
    head = await engine.hot[topic.shard].pop(topic.number, 1, topic.namespace)
    assert head.is_hot
    assert len(head.refs) == 1


async def test_a_process_that_has_heard_of_a_run_that_is_over_asks_again(
    engine: Engine, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server was restarted between its two questions."""
    hot, now = engine.hot[topic.shard], await careful.run_of(topic.redis)

    async def run_of(client: "Redis") -> str:
        monkeypatch.undo()
        return "f" * careful.RUN

    monkeypatch.setattr(careful, "run_of", run_of)
    hot._sets._pop.ask_again()
    found = [(await hot.pop(topic.number, 1, topic.namespace)).is_hot for _ in range(2)]
    assert found == [False, True], now


async def test_a_lost_redis_loses_nothing(engine: Engine, topic: Topic) -> None:
    await send(engine, *(message(topic.namespace, body=n) for n in range(3)))
    for number in range(2):
        await topic.redis.delete(keys.generation(number), keys.demand(number))
    await send(engine, message(topic.namespace, body=3))
    assert bodies(await take(engine, topic.namespace, limit=2)) == [0, 1]
    topic.prefetcher._looked_at_generation = 0
    await topic.warm()
    assert bodies(await take(engine, topic.namespace, limit=5)) == [2, 3]


async def silent(*_: object, **__: object) -> None:
    """As a Redis does that stands still."""
    raise TimeoutError


async def test_an_offer_that_was_lost_makes_its_topic_cold_before_anybody_is_told(
    engine: Engine, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may be served from the sets meanwhile."""
    hot = engine.hot[topic.shard]
    monkeypatch.setattr(hot._sets, "_run", silent)
    monkeypatch.setattr(hot._sets, "_pay", silent)
    sent = asyncio.create_task(send(engine, message(topic.namespace, body="unoffered")))
    await asyncio.sleep(0.1)
    assert not sent.done()
    monkeypatch.undo()
    await sent
    assert await topic.redis.exists(await topic.key("t"), await topic.key("r")) == 0
    assert not hot.is_away
    assert bodies(await take(engine, topic.namespace)) == ["unoffered"]


async def test_nobody_waits_long_for_a_redis_that_stays_away(
    engine: Engine, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot = engine.hot[topic.shard]
    monkeypatch.setattr(hot._sets, "_run", silent)
    monkeypatch.setattr(hot._sets, "_pay", silent)
    took = []
    for n in range(5):
        began = time.monotonic()
        await send(engine, message(topic.namespace, body=n))
        took.append(time.monotonic() - began)
    assert SOUGHT_S - 0.1 < took[0] < SOUGHT_S + 0.5
    assert max(took[1:]) < 0.2
    assert hot.is_away
    monkeypatch.undo()
    while hot.is_away:
        await asyncio.sleep(0.01)
    assert bodies(await take(engine, topic.namespace, limit=9)) == [0, 1, 2, 3, 4]


async def test_only_one_prefetcher_is_at_work_and_another_takes_over(topic: Topic) -> None:
    standby = topic.new_prefetcher()
    assert await standby.run_once() == prefetcher.STANDBY_S
    await topic.prefetcher.leave()
    assert await standby.run_once() != prefetcher.STANDBY_S
    assert await topic.prefetcher.run_once() == prefetcher.STANDBY_S
    await standby.leave()


async def test_the_ref_of_sql_and_of_python_are_the_same(topic: Topic, shard_0: Any) -> None:
    from datetime import UTC, datetime

    from mqueue.hot import refs

    due = datetime(2031, 7, 8, 9, 10, 11, 123456, tzinfo=UTC)
    for priority, number, epoch in ((0, 1, 0), (255, 2**53 - 1, 2**31 - 1), (7, 268435491, 3)):
        row = shard_0.execute(
            "SELECT ref(%s::smallint, %s, %s, %s, %s)", [priority, due, number, epoch, due.date()]
        ).fetchone()
        assert row[0] == refs.write(priority, due, number, epoch)
        ref = refs.read(row[0])
        assert (ref.id, ref.epoch, ref.day) == (number, epoch, due.date())
        assert refs.due_of(row[0]) == refs.microseconds(due)


class Walk:
    """A random walk over one topic, with a plain model of it beside."""

    def __init__(self, topic: Topic, seed: int) -> None:
        self.engine, self.namespace, self.rng = topic.engine, topic.namespace, random.Random(seed)
        self.waiting: dict[int, tuple[int, int]] = {}  # id: priority, when it came into the line of its priority
        self.came = 0

    async def step(self) -> None:
        steps = [self.add, self.move, self.cancel, self.take]
        await self.rng.choices(steps, [40, 10, 5, 45])[0]()

    async def add(self) -> None:
        batch = [message(self.namespace, priority=self.rng.choice((0, 3, 5, 9))) for _ in range(self.rng.randint(1, 4))]
        for number, one in zip(await send(self.engine, *batch), batch, strict=True):
            self.came += 1
            self.waiting[number] = one.priority, self.came

    async def move(self) -> None:
        if self.waiting:
            number, priority = self.rng.choice(list(self.waiting)), self.rng.choice((0, 3, 5, 9))
            await self.engine.waiting.move("m", number, Move(self.namespace, "t", priority=priority))
            self.waiting[number] = priority, self.waiting[number][1]

    async def cancel(self) -> None:
        if self.waiting:
            number = self.rng.choice(list(self.waiting))
            await self.engine.waiting.cancel("m", number, Place(self.namespace, "t"))
            del self.waiting[number]

    async def take(self) -> None:
        wanted = self.rng.randint(1, 3)
        found = await take(self.engine, self.namespace, limit=wanted)
        assert [one.id for one in found] == sorted(self.waiting, key=lambda n: self.waiting[n])[:wanted]
        for one in found:
            await self.rng.choices([self.release, self.nack, self.ack], [20, 20, 60])[0](one)

    async def release(self, one: Delivered) -> None:
        await self.engine.release("c", [Settle(one.id, self.namespace, "t", one.receipt)])

    async def nack(self, one: Delivered) -> None:
        await self.engine.nack("c", [Nack(one.id, self.namespace, "t", one.receipt, delay_ms=0)])
        self.came += 1
        priority, _ = self.waiting.pop(one.id)
        if one.attempt <= one.max_retries:
            self.waiting[one.id] = priority, self.came

    async def ack(self, one: Delivered) -> None:
        await self.engine.ack("c", [Settle(one.id, self.namespace, "t", one.receipt)])
        del self.waiting[one.id]


@pytest.mark.parametrize("seed", range(6))
async def test_strict_order_whatever_happens_beside_it(topic: Topic, monkeypatch: Any, seed: int) -> None:
    """The prefetcher fills, trims, pages and loses its sets meanwhile."""
    for name, number in (("MOST", 12), ("KEEP", 5), ("LOW", 3), ("FILL", 4), ("PAGE_EVERY_S", 0.02)):
        monkeypatch.setattr(prefetcher, name, number)
    walk, stop = Walk(topic, seed), asyncio.Event()

    async def tend() -> None:
        while not stop.is_set():
            await topic.prefetcher.run_once()
            await asyncio.sleep(walk.rng.random() * 0.005)
            if walk.rng.random() < 0.03:
                await topic.redis.delete(keys.generation(topic.shard_number))
                topic.prefetcher._looked_at_generation = 0

    tending = asyncio.create_task(tend())
    try:
        for _ in range(250):
            await walk.step()
    finally:
        stop.set()
        await tending


async def test_many_consumers_and_producers_lose_and_double_nothing(
    engine: Engine, topic: Topic, configuration: Conf, monkeypatch: Any
) -> None:
    for name, number in (("MOST", 40), ("KEEP", 20), ("LOW", 10), ("FILL", 15)):
        monkeypatch.setattr(prefetcher, name, number)
    other = Engine(configuration)  # as in another process
    await other.open()
    stop = asyncio.Event()
    sent: list[int] = []
    got: list[int] = []

    async def tend() -> None:
        while not stop.is_set():
            await topic.prefetcher.run_once()
            await asyncio.sleep(0.002)

    async def produce(on: Engine, n: int) -> None:
        for k in range(30):
            delay = 50 if k % 5 == 0 else None
            sent.extend(await send(on, *(message(topic.namespace, priority=n, delay_ms=delay) for _ in range(5))))

    async def consume(on: Engine) -> None:
        while not stop.is_set():
            found = await take(on, topic.namespace, limit=4, wait_ms=200)
            got.extend(one.id for one in found)
            await on.ack("c", [Settle(one.id, topic.namespace, "t", one.receipt) for one in found])

    tending = asyncio.create_task(tend())
    consumers = [asyncio.create_task(consume(on)) for on in (engine, other) * 4]
    await asyncio.gather(*(produce(on, n) for n, on in enumerate((engine, other) * 3)))
    until: Callable[[], bool] = lambda: len(got) >= len(sent)  # noqa: E731
    for _ in range(200):
        if until():
            break
        await asyncio.sleep(0.05)
    stop.set()
    await asyncio.gather(tending, *consumers)
    await other.close()
    assert sorted(got) == sorted(sent)


async def test_one_arrival_wakes_consumers_of_another_process(
    engine: Engine, topic: Topic, configuration: Conf
) -> None:
    other = Engine(configuration)
    await other.open()
    await take(other, topic.namespace)
    waiting = asyncio.create_task(take(other, topic.namespace, wait_ms=10_000))
    await asyncio.sleep(0.3)
    began = asyncio.get_running_loop().time()
    await send(engine, message(topic.namespace, body="hello"))
    assert bodies(await waiting) == ["hello"]
    assert asyncio.get_running_loop().time() - began < 0.2
    await other.close()


async def test_five_thousand_waiting_polls_delay_nobody(engine: Engine, topic: Topic) -> None:
    polls = [asyncio.create_task(take(engine, topic.namespace, wait_ms=20_000)) for _ in range(5_000)]
    await asyncio.sleep(1.5)
    loop = asyncio.get_running_loop()
    for answered in range(10, 60, 10):
        began = loop.time()
        await send(engine, *(message(topic.namespace, body=n) for n in range(10)))
        while sum(poll.done() for poll in polls) < answered:
            await asyncio.sleep(0.002)
            assert loop.time() - began < 2
        await asyncio.sleep(0.05)
    assert sum(poll.done() for poll in polls) == 50
    for poll in polls:
        poll.cancel()
    await asyncio.gather(*polls, return_exceptions=True)


async def test_what_was_leased_is_handed_out_though_the_shard_fails_in_the_middle(
    engine: Engine, topic: Topic, monkeypatch: Any
) -> None:
    """Or its attempt would be spent, and nobody would have seen it."""
    await topic.warm()
    await send(engine, message(topic.namespace))
    bound = f"{200:02x}{1:014x}{1:014x}"  # so that the rest is asked of PostgreSQL
    await topic.redis.hset(await topic.key("t"), "bound", bound)

    async def fail(*_: object) -> None:
        raise ShardUnavailable

    with monkeypatch.context() as patch:
        patch.setattr("mqueue.engine.claims.Claims.head", fail)
        assert len(await take(engine, topic.namespace, limit=5)) == 1
        with pytest.raises(ShardUnavailable):
            await take(engine, topic.namespace, limit=5)


def test_offers_are_plain_values() -> None:
    assert Offer(1, 0, "x") == Offer(1, 0, "x")


async def test_a_claim_that_finds_its_row_changed_leaves_it(engine: Engine, topic: Topic, shard_0: Any) -> None:
    (number,) = await send(engine, message(topic.namespace, body=1))
    url = topic.shard._url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE delivery SET epoch = epoch + 1 WHERE id = %s", [number])
    assert await take(engine, topic.namespace) == []
    topic.prefetcher._paging = Sparing(0)
    await topic.prefetcher.run_once()
    assert bodies(await take(engine, topic.namespace)) == [1]
