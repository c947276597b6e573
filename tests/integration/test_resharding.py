"""A process that has not heard of a move: it can do no harm, and no answer of it is wrong."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import psycopg
import pytest

from daemons.leases import LeaseDaemon
from daemons.management.commands.reshard import wipe_sets
from mqueue.core.conf import Conf
from mqueue.core.errors import ShardUnavailable, SlotMoved
from mqueue.core.messages import Dequeue, Extend, Move, Nack, Place, Settle
from mqueue.engine.engine import Engine
from mqueue.engine.settle import Settled
from shards.resharding import mover
from shards.resharding.record import MoverError
from shards.routing import slot_of
from tests.integration.messages import message
from tests.pipeline.past import day_before, grow_older
from tests.servers import conf_of

TOPIC = "moving"
SLOT = slot_of("default", TOPIC)


@pytest.fixture
def conf(fresh_databases: str) -> Conf:
    return conf_of(fresh_databases, 0)


@pytest.fixture
async def engines(conf: Conf) -> AsyncIterator[tuple[Engine, Engine]]:
    """One that hears of everything, and one that hears of nothing any more."""
    fresh, stale = Engine(conf), Engine(conf)
    for engine in (fresh, stale):
        await engine.open()
    yield fresh, stale
    for engine in (fresh, stale):
        await engine.close()


async def move(conf: Conf, engine: Engine, say: Callable[[str], None] = lambda _: None, grace_s: float = 0.5) -> int:
    """To the other of two shards; which that is."""
    there = 1 - engine.cluster.slots.reader(SLOT)
    tools = mover.Tools(conf, wipe_sets, say, grace_s)
    await asyncio.to_thread(mover.begin, tools, [SLOT], there)
    return there


def deafen(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refresh() -> None:
        raise ShardUnavailable("the control database is out of reach")

    monkeypatch.setattr(engine.cluster.slots, "refresh", refresh)


async def put(engine: Engine, **fields: Any) -> int:
    result = await engine.enqueue("p", [message(topic=TOPIC, **fields)])
    if result.error:
        raise result.error
    (number,) = result.ids
    assert number
    return number


async def take(engine: Engine) -> Settle:
    (found,) = await engine.dequeue("c", Dequeue("default", TOPIC, visibility_ms=60_000))
    return Settle(found.id, "default", TOPIC, found.receipt)


async def one(outcomes: Awaitable[list[Any]]) -> Any:
    (outcome,) = await outcomes
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


async def test_whoever_has_not_heard_of_it_changes_nothing(
    conf: Conf, engines: tuple[Engine, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh, stale = engines
    waiting = await put(stale)
    await put(stale)
    held = await take(stale)
    deafen(stale, monkeypatch)
    await move(conf, fresh)
    await put(fresh)  # and this one was never where the stale one looks
    new = await take(fresh)
    place = Place("default", TOPIC)
    monkeypatch.setattr("shards.patience.PATIENCE_S", 0.2)
    extend, nack = Extend(held.id, "default", TOPIC, held.receipt), Nack(held.id, "default", TOPIC, held.receipt)
    attempts: list[Callable[[], Awaitable[Any]]] = [
        partial(put, stale),
        partial(put, stale, idempotency_key="k"),
        lambda: one(stale.ack("c", [held])),
        lambda: one(stale.ack("c", [new])),
        lambda: one(stale.extend("c", [extend])),
        lambda: one(stale.nack("c", [nack])),
        lambda: one(stale.release("c", [held])),
        lambda: one(_first(stale.ack("c", [held, new]))),
        lambda: stale.waiting.cancel("c", waiting, place),
        lambda: stale.waiting.move("c", waiting, Move(namespace="default", topic=TOPIC, priority=1)),
    ]
    for attempt in attempts:
        with pytest.raises(SlotMoved):
            await attempt()
    for settle in (held, new):
        assert await one(fresh.ack("c", [settle])) == Settled("acked")


async def _first(outcomes: Awaitable[list[Any]]) -> list[Any]:
    return (await outcomes)[:1]


async def test_whoever_hears_of_it_meanwhile_only_waits(conf: Conf, engines: tuple[Engine, Engine]) -> None:
    """Writers hammer the slot while it moves to and fro: no error, nothing lost, nothing twice."""
    sent: list[int] = []
    taken: list[int] = []
    stop = asyncio.Event()

    async def produce(engine: Engine) -> None:
        while not stop.is_set():
            sent.append(await put(engine, idempotency_key=f"{len(sent)}-{id(engine)}" if len(sent) % 3 else None))

    async def consume(engine: Engine, *, until_empty: bool = False) -> None:
        while not stop.is_set() or until_empty:
            found = await engine.dequeue("c", Dequeue("default", TOPIC, limit=10, wait_ms=50, visibility_ms=60_000))
            settles = [Settle(one.id, "default", TOPIC, one.receipt) for one in found]
            if not settles and until_empty:
                return
            if settles:
                assert set(await engine.ack("c", settles)) == {Settled("acked")}
                taken.extend(settle.id for settle in settles)

    async with asyncio.TaskGroup() as group:
        for engine in engines:
            group.create_task(produce(engine))
            group.create_task(consume(engine))
        for _ in range(2):
            await move(conf, engines[0])
        stop.set()
    await consume(engines[0], until_empty=True)
    assert len(sent) > 50
    assert sorted(taken) == sorted(sent)


async def test_a_poll_that_waits_is_served_from_where_its_topic_has_gone(
    conf: Conf, engines: tuple[Engine, Engine]
) -> None:
    fresh, other = engines
    done = await put(fresh)
    assert (await take(other)).id == done
    waiting = asyncio.create_task(other.dequeue("c", Dequeue("default", TOPIC, wait_ms=20_000)))
    await asyncio.sleep(0.1)
    await move(conf, fresh)
    sent = await put(fresh)
    (found,) = await asyncio.wait_for(waiting, 3)
    assert found.id == sent


async def test_the_lease_daemon_leaves_a_copy_alone(conf: Conf, engines: tuple[Engine, Engine]) -> None:
    """A lease lapses while the copy is made: only the shard that owns it ends it, once."""
    fresh, _ = engines
    number = await put(fresh)
    (found,) = await fresh.dequeue("c", Dequeue("default", TOPIC, visibility_ms=1_000))
    assert found.id == number
    ended: list[str] = []

    def look(line: str) -> None:
        """On the mover's thread, when everything is copied: the lease runs out, and both daemons look."""
        if not line.startswith("compared"):
            return
        for url in conf.shard_urls:
            with psycopg.connect(url) as connection:
                connection.execute("UPDATE delivery SET until = now() WHERE id = %s", [number])
        for shard in fresh.cluster.shards:
            daemon = LeaseDaemon(shard, fresh.hot[shard], fresh.settings.topic)
            asyncio.run_coroutine_threadsafe(daemon.run_once(), loop).result(5)
        for url in conf.shard_urls:
            with psycopg.connect(url) as connection:
                rows = connection.execute("SELECT state FROM delivery WHERE id = %s", [number]).fetchall()
                ended.append(str(rows))

    loop = asyncio.get_running_loop()
    there = await move(conf, fresh, look)
    assert sorted(ended) == ["[(0,)]", "[(2,)]"]  # here it waits again, there it is a copy
    assert ended[there] == "[(2,)]"
    (again,) = await fresh.dequeue("c", Dequeue("default", TOPIC))
    assert (again.id, again.attempt) == (number, 2)


async def test_what_differs_is_not_switched(conf: Conf, engines: tuple[Engine, Engine]) -> None:
    fresh, _ = engines
    number = await put(fresh)
    here = fresh.cluster.slots.reader(SLOT)

    def spoil(line: str) -> None:
        if line == "step compare":
            with psycopg.connect(conf.shard_urls[1 - here]) as connection:
                connection.execute("UPDATE delivery SET priority = 9 WHERE id = %s", [number])

    with pytest.raises(MoverError, match="delivery differs in 1 slots"):
        await move(conf, fresh, spoil)
    assert (await take(fresh)).id == number
    await asyncio.to_thread(mover.undo, mover.Tools(conf, wipe_sets, lambda _: None, 0))
    await fresh.cluster.slots.refresh()
    assert fresh.cluster.slots.reader(SLOT) == here


@pytest.mark.parametrize("name", ["", "a", "orders", "t:1", "ключ", "x" * 255, "\u20ac\U0001f600"])
async def test_postgresql_computes_the_same_slot(conf: Conf, name: str) -> None:
    with psycopg.connect(conf.shard_urls[0]) as connection:
        row = connection.execute("SELECT slot_of('acme', %s)", [name]).fetchone()
    assert row == (slot_of("acme", name),)


async def test_a_day_that_the_target_has_sealed_stops_the_move_before_anything_is_switched(
    conf: Conf, engines: tuple[Engine, Engine]
) -> None:
    fresh, _ = engines
    waiting = await put(fresh)
    grow_older(conf, "default", 9)
    there = 1 - fresh.cluster.slots.reader(SLOT)
    with psycopg.connect(conf.shard_urls[there]) as connection:
        connection.execute("SELECT seal_partition('message', %s)", [day_before(9)])
    with pytest.raises(MoverError, match="sealed"):
        await move(conf, fresh)
    assert fresh.cluster.slots.reader(SLOT) == 1 - there
    tools = mover.Tools(conf, wipe_sets, lambda _: None, 0.5)
    await asyncio.to_thread(mover.undo, tools)
    assert (await take(fresh)).id == waiting
