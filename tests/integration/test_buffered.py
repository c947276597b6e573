"""Buffered topics in one process: log, buffer, flush and mark, and what comes between them."""

import asyncio
import contextlib
import dataclasses
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from daemons.prefetcher import Prefetcher
from mqueue.core.conf import Conf
from mqueue.core.errors import BufferFull, ControlUnavailable, QuotaExceeded, ShardUnavailable, SlotMoved, Undecided
from mqueue.core.messages import Message, Retry, Settle, StatsPage
from mqueue.engine.adopting import Adopting, Estate
from mqueue.engine.engine import Engine
from mqueue.engine.enqueue import Enqueued, Enqueuing
from mqueue.engine.flushing import Flushing, Outrun
from mqueue.engine.rescue import Rescue
from mqueue.engine.topics import Topics
from mqueue.hot.buffer import Buffer
from mqueue.wal import living
from mqueue.wal.folder import WalDir, WriterFolder
from shards.pools import Database
from shards.routing import SLOTS, slot_of
from shards.sql import statement
from tenants.snapshot import DEFAULTS
from tests.integration.messages import message, send
from tests.integration.test_engine import bodies, take
from tests.integration.test_limits import limit
from tests.proxy import proxy

Open = Any  # opens an engine; its `close` ends one before the test does


class Shard:
    """The shard of a topic, with a flusher that the test drives."""

    def __init__(self, engine: Engine, namespace: str, topic: str = "t") -> None:
        self.engine, self.namespace, self.topic = engine, namespace, topic
        self.database: Database = engine.cluster.shard_of_topic(namespace, topic)
        self.buffer = engine.hot.buffer(self.database.number or 0)
        self.flushing = self.another_flusher()

    def another_flusher(self) -> Flushing:
        topics = Topics(self.engine.cluster, self.engine.settings, auto_create_namespaces=False)
        return Flushing(self.database, self.engine.cluster, self.engine.hot, topics)

    async def flush(self) -> None:
        while await self.flushing.flush(0):
            pass

    async def put(self, *many: Any, **fields: Any) -> Enqueued:
        wanted = [message(self.namespace, self.topic, body, **fields) for body in many or (1,)]
        return await self.engine.enqueue("p", wanted)

    async def bodies(self) -> list[Any]:
        return bodies(await take(self.engine, self.namespace, self.topic, limit=1000))

    async def execute(self, query: str, *parameters: Any) -> list[Any]:
        async with self.database.connection() as connection:
            cursor = await connection.execute(query, parameters)  # type: ignore[call-overload]
            return await cursor.fetchall() if cursor.description else []


@pytest.fixture
def redis_client(configuration: Conf) -> "Iterator[redis.Redis]":
    with redis.Redis.from_url(configuration.redis.url) as client:
        client.flushdb()
        yield client


@pytest.fixture
async def opened(configuration: Conf, tmp_path: Path, redis_client: object) -> AsyncIterator[Open]:
    engines: list[Engine] = []

    async def open_(conf: Conf = configuration, wal_bytes: int = 64 << 20) -> Engine:
        engine = Engine(dataclasses.replace(conf, wal_dir=tmp_path / "wal", wal_bytes=wal_bytes))
        await engine.open()
        engines.append(engine)
        return engine

    async def close(engine: Engine) -> None:
        engines.remove(engine)
        await engine.close()

    open_.close = close  # type: ignore[attr-defined]
    yield open_
    while engines:
        await close(engines[-1])


async def buffered(engine: Engine, namespace: str, topic: str = "t") -> Shard:
    """A topic whose durability this process believes to be so: what the control plane says is tried over HTTP."""
    shard = Shard(engine, namespace, topic)
    await send(engine, message(namespace, topic, "first"))
    ((number,),) = await shard.execute("SELECT id FROM topic WHERE namespace = %s AND name = %s", namespace, topic)
    engine.settings._topics[number] = dataclasses.replace(DEFAULTS, durability="buffered")
    assert await shard.bodies() == ["first"]
    return shard


@pytest.fixture
async def shard(opened: Open, namespace: str) -> Shard:
    return await buffered(await opened(), namespace)


async def until(condition: Callable[[], Any], patience_s: float = 5.0) -> None:
    async with asyncio.timeout(patience_s):
        while not (condition() if not asyncio.iscoroutinefunction(condition) else await condition()):
            await asyncio.sleep(0.01)


def wal_files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "wal").glob("writers/*/*/*.wal"))


def wal_bytes(tmp_path: Path) -> int:
    """A segment may be removed between the look into its folder and the look at it."""
    found = 0
    for path in wal_files(tmp_path):
        with contextlib.suppress(FileNotFoundError):
            found += path.stat().st_size
    return found


async def test_it_is_taken_before_it_is_committed_and_then_handed_out_in_order(shard: Shard) -> None:
    result = await shard.put(*range(50))
    assert result.buffered
    assert result.error is None
    assert len(set(result.ids)) == 50
    assert await shard.bodies() == []
    for n in range(50, 60):
        await shard.put(n)
    await shard.flush()
    assert await shard.bodies() == list(range(60))


async def test_its_rows_are_those_of_a_commit(opened: Open, namespace: str) -> None:
    engine = await opened()
    shard = await buffered(engine, namespace)
    plain = Shard(engine, namespace, "plain")
    later = datetime.now(UTC) + timedelta(days=3)
    kinds: list[dict[str, Any]] = [
        {},
        {"priority": 0, "ttl_ms": 5000, "headers": {"a": "b"}, "max_retries": 0},
        {"deliver_after": later, "retry": Retry("linear", 5), "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"},
        {"deliver_after": datetime(1, 1, 1, tzinfo=UTC)},
        {"delay_ms": 0},
    ]
    for fields in kinds:
        await shard.put("x", **fields)
        await plain.engine.enqueue("p", [message(namespace, "plain", "x", **fields)])
    payload = Message(namespace, "t", payload=b"\0\xff")
    await engine.enqueue("p", [payload])
    await engine.enqueue("p", [Message(namespace, "plain", payload=b"\0\xff")])
    await shard.flush()
    query = """
        SELECT m.deliver_after, m.ttl_ms, m.payload_bytes, m.max_retries, m.priority, m.is_json, m.payload, m.headers,
               m.retry, m.traceparent, m.producer, m.idempotency_key, d.priority, d.state, d.attempts, d.epoch,
               d.day = m.day, d.due = greatest(m.enqueued_at, m.deliver_after), d.expiry - d.due
        FROM message m JOIN delivery d USING (id) JOIN topic t ON t.id = m.topic
        WHERE t.namespace = %s AND t.name = %s AND d.state = 0 ORDER BY m.id
    """
    theirs = await plain.execute(query, namespace, "plain")
    assert len(theirs) == len(kinds) + 1
    assert await shard.execute(query, namespace, "t") == theirs
    counts = await engine.look.stats(StatsPage(namespace))
    assert {(c.topic, c.ready, c.scheduled) for c in counts} == {("t", 5, 1), ("plain", 5, 1)}


async def test_a_delay_counts_from_when_it_was_taken(shard: Shard) -> None:
    before = datetime.now(UTC)
    await shard.put(1, delay_ms=1000)
    await asyncio.sleep(0.3)
    await shard.flush()
    (found,) = await take(shard.engine, shard.namespace, wait_ms=3000)
    assert found.deliver_after
    assert abs((found.deliver_after - before).total_seconds() - 1) < 0.2
    assert (found.deliver_after - found.enqueued_at).total_seconds() < 0.75


async def test_a_consumer_that_waits_gets_it_when_it_is_flushed(shard: Shard) -> None:
    waiting = asyncio.create_task(take(shard.engine, shard.namespace, limit=1, wait_ms=5000))
    await shard.put("x")
    assert await shard.flushing.flush(1)
    assert bodies(await waiting) == ["x"]


async def test_a_key_is_decided_by_a_commit(shard: Shard) -> None:
    result = await shard.put("keyed", idempotency_key="k")
    assert not result.buffered
    assert await shard.bodies() == ["keyed"]
    both = await shard.engine.enqueue(
        "p", [message(shard.namespace, "t", "again", idempotency_key="k"), message(shard.namespace, "t", "new")]
    )
    assert both.buffered
    assert (both.duplicates, both.ids[0]) == (1, result.ids[0])
    await shard.flush()
    assert await shard.bodies() == ["new"]


async def test_one_request_may_go_to_topics_of_both_kinds(shard: Shard) -> None:
    other = Shard(shard.engine, shard.namespace, "plain")
    result = await shard.engine.enqueue("p", [message(shard.namespace, "plain", 1), message(shard.namespace, "t", 2)])
    assert result.buffered
    assert all(result.ids)
    assert await other.bodies() == [1]
    assert await shard.bodies() == []
    await shard.flush()
    assert await shard.bodies() == [2]


async def test_what_is_logged_is_told_though_the_rest_of_the_request_cannot_be_added(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who sends all of it again, since he was told that nothing was added, would send it twice."""

    async def fail(*_: object) -> None:
        raise ControlUnavailable("no more ids")

    monkeypatch.setattr(Enqueuing, "_add", fail)
    logged, committed = message(shard.namespace, "t", 1), message(shard.namespace, "plain", 2)
    result = await shard.engine.enqueue("p", [logged, committed])
    assert isinstance(result.error, ControlUnavailable)
    assert [number is None for number in result.ids] == [False, True]
    assert result.in_doubt == []
    await shard.flush()
    assert await shard.bodies() == [1]


async def test_it_waits_while_its_slot_moves_as_a_commit_does(shard: Shard) -> None:
    """A write to the slot was refused a moment ago: nothing is lost by waiting until there is an answer where to go."""
    slots = shard.engine.cluster.slots
    moving = slots.hold(frozenset({slot_of(shard.namespace, shard.topic)}))
    with pytest.raises(SlotMoved):
        shard.engine.cluster.shard_of_topic(shard.namespace, shard.topic)
    result = await shard.put(1, 2)
    assert moving.done()
    assert result.buffered
    assert result.error is None
    await shard.flush()
    assert await shard.bodies() == [1, 2]


async def test_it_is_taken_while_its_shard_is_down_and_comes_when_it_is_back(
    opened: Open, configuration: Conf, namespace: str
) -> None:
    async with proxy() as between:
        names = [url.split("@/")[1].split("?")[0] for url in configuration.shard_urls]
        conf = dataclasses.replace(configuration, shard_urls=tuple(between.url(name) for name in names))
        shard = await buffered(await opened(conf), namespace)
        await between.refuse()
        await until(lambda: not shard.database.is_up)
        with pytest.raises(ShardUnavailable):
            await shard.execute("SELECT 1")
        for n in range(20):
            assert (await shard.put(n)).buffered
        with pytest.raises(ShardUnavailable):
            await shard.flush()
        await between.open()
        await until(lambda: shard.database.is_up)
        await shard.flush()
        assert await shard.bodies() == list(range(20))


async def test_what_redis_forgets_is_pushed_again(shard: Shard, redis_client: "redis.Redis") -> None:
    await shard.put(0)
    await shard.flush()
    for n in range(1, 5):
        await shard.put(n)
    redis_client.flushdb()
    await shard.put(5)  # finds that something is missing before it
    await shard.flush()
    assert await shard.bodies() == list(range(6))
    await shard.put(6)
    redis_client.flushdb()
    await until(lambda: redis_client.xlen(shard.buffer._keys[0]))  # nobody sends: it is found by looking
    await shard.flush()
    assert await shard.bodies() == [6]


async def test_an_old_redis_is_brought_up_to_date(shard: Shard, redis_client: "redis.Redis") -> None:
    keys = shard.buffer._keys
    await shard.put(0)
    old = {key: redis_client.dump(key) for key in keys}
    for n in range(1, 4):
        await shard.put(n)
    await shard.flush()
    await shard.put(4)
    for key, dump in old.items():
        redis_client.delete(key)
        if dump:
            redis_client.restore(key, 0, dump)
    await shard.put(5)
    await shard.flush()
    assert await shard.bodies() == list(range(6))


async def test_a_push_that_fails_leaves_a_doubt_and_hides_nothing(shard: Shard, monkeypatch: Any) -> None:
    push, fails = Buffer.push, ["before", "after"]

    async def failing(self: Buffer, *args: Any, **more: Any) -> int:
        if not fails:
            return await push(self, *args, **more)
        if fails.pop() == "after":
            await push(self, *args, **more)
        raise redis.ConnectionError

    monkeypatch.setattr(Buffer, "push", failing)
    for n in (0, 1):
        fails[:] = ["before", "after"][n : n + 1]
        result = await shard.put(n)
        assert isinstance(result.error, Undecided)
        assert result.in_doubt == [0]
        assert result.ids[0]
        refused = await shard.put("refused")
        assert isinstance(refused.error, ShardUnavailable)
        assert not isinstance(refused.error, Undecided)
        assert refused.ids == [None]

        async def is_taken(n: int = n) -> bool:
            return (await shard.put(f"after {n}")).error is None

        await until(is_taken)
    await shard.flush()
    assert await shard.bodies() == [0, "after 0", 1, "after 1"]


async def test_a_flusher_that_was_stopped_commits_nothing_twice(shard: Shard) -> None:
    for n in range(5):
        await shard.put(n)
    stopped = shard.another_flusher()
    entries = await stopped._buffer.read(b"0-0", 10, 0)
    load, _ = await stopped._load(entries)
    await shard.flush()
    await shard.put(5)
    with pytest.raises(Outrun):
        await stopped._commit_load(load)
    while await stopped.flush(0):
        pass
    assert await shard.bodies() == list(range(6))


async def test_two_flushers_at_once_commit_nothing_twice(shard: Shard) -> None:
    flushers = [shard.flushing, shard.another_flusher(), shard.another_flusher()]
    sent = 0

    async def flush(flusher: Flushing) -> None:
        while sent < 200 or await shard.buffer.depth():
            try:
                await flusher.flush(0)
            except (Outrun, ShardUnavailable):
                continue
            await asyncio.sleep(0)

    working = [asyncio.create_task(flush(flusher)) for flusher in flushers]
    for n in range(200):
        await shard.put(n)
        sent += 1
    await asyncio.gather(*working)
    assert await shard.bodies() == list(range(200))


async def test_who_dies_leaves_its_log_to_the_next(
    opened: Open, namespace: str, redis_client: "redis.Redis", tmp_path: Path
) -> None:
    first = await opened()
    shard = await buffered(first, namespace)
    for n in range(10):
        await shard.put(n)
    await opened.close(first)  # with nothing flushed, its log stays as that of a killed process does
    redis_client.flushdb()
    assert len(wal_files(tmp_path)) == 1
    heir = Shard(await opened(), namespace)
    await until(lambda: redis_client.xlen(heir.buffer._keys[0]))
    await heir.flush()
    assert await heir.bodies() == list(range(10))
    await until(lambda: not list((tmp_path / "wal/writers").iterdir()))
    assert redis_client.hlen(heir.buffer._keys[1]) == 0


async def test_a_log_without_anything_left_goes_with_its_process(opened: Open, namespace: str, tmp_path: Path) -> None:
    engine = await opened()
    shard = await buffered(engine, namespace)
    await shard.put(1)
    await shard.flush()
    await opened.close(engine)
    assert list((tmp_path / "wal/writers").iterdir()) == []


async def test_a_log_that_is_full_takes_nothing_until_it_is_flushed(
    opened: Open, namespace: str, tmp_path: Path
) -> None:
    shard = await buffered(await opened(wal_bytes=1 << 20), namespace)
    large = "x" * 100_000
    taken, result = 0, await shard.put(large)
    while result.error is None:
        taken += 1
        result = await shard.put(large)
    assert isinstance(result.error, BufferFull)
    assert result.error.retry_after_s
    assert "full" in shard.engine.buffering.trouble
    assert result.ids == [None]
    assert 8 <= taken <= 10
    await shard.flush()

    async def is_taken() -> bool:
        return (await shard.put("small")).error is None

    await until(is_taken)
    assert shard.engine.buffering.trouble == ""
    await shard.flush()
    assert len(await shard.bodies()) == taken + 1
    await until(lambda: wal_bytes(tmp_path) < 300_000)


async def test_a_disk_that_cannot_be_written_refuses_and_leaves_no_doubt(shard: Shard, monkeypatch: Any) -> None:
    await shard.put(0)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(living.os, "fdatasync", full)
        result = await shard.put("refused")
        assert isinstance(result.error, ShardUnavailable)
        assert (result.ids, result.in_doubt) == ([None], [])
        assert "No space left" in shard.engine.buffering.trouble
    await shard.put(1)
    assert shard.engine.buffering.trouble == ""
    await shard.flush()
    assert await shard.bodies() == [0, 1]


async def test_a_log_whose_end_nobody_knows_takes_nothing_more(opened: Open, namespace: str, monkeypatch: Any) -> None:
    engine = await opened()
    shard = await buffered(engine, namespace)
    await shard.put(0)

    def fail(*_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(living.os, "fdatasync", fail)
        patch.setattr(living.os, "ftruncate", fail)
        result = await shard.put("in doubt")
    assert isinstance(result.error, Undecided)
    assert result.in_doubt == [0]
    assert (await shard.put("refused")).ids == [None]
    assert "started again" in engine.buffering.trouble
    await shard.flush()
    assert await shard.bodies() == [0]
    await opened.close(engine)
    heir = Shard(await opened(), namespace)
    found: list[Any] = []

    async def is_there() -> bool:
        await heir.flush()
        found.extend(await heir.bodies())
        return bool(found)

    await until(is_there)
    assert found == ["in doubt"]


async def test_known_topics_are_taken_while_the_control_database_is_down(
    opened: Open, configuration: Conf, namespace: str
) -> None:
    async with proxy() as between:
        name = configuration.control_url.split("@/")[1].split("?")[0]
        engine = await opened(dataclasses.replace(configuration, control_url=between.url(name)))
        shard = await buffered(engine, namespace)
        await between.refuse()
        await until(lambda: not engine.cluster.control.is_up)
        assert (await shard.put(1)).buffered
        with pytest.raises(ControlUnavailable):
            await engine.enqueue("p", [message(namespace, "unknown")])
        await shard.flush()
        assert await shard.bodies() == [1]


def move_slots(engine: Engine, *moving: int) -> None:
    """As this process sees it, two databases have these slots by turns."""
    slots = engine.cluster.slots
    slots._owners = tuple(1 - owner if slot in moving else owner for slot, owner in enumerate(slots._owners))
    slots._release()
    for listener in slots._listeners:
        listener()


async def test_what_moves_while_others_are_carried_after_their_slot_is_not_forgotten(
    opened: Open, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await opened()
    first = await buffered(engine, namespace)
    names = (f"t{n}" for n in range(1000))
    name = next(one for one in names if engine.cluster.shard_of_topic(namespace, one) is first.database)
    second = await buffered(engine, namespace, name)
    await first.put("carried")
    await second.put("about to leave")
    slots = [slot_of(namespace, topic) for topic in ("t", name)]
    move_slots(engine, slots[0])
    add = Rescue.add

    async def meanwhile(rescue: Rescue, found: Any) -> int:
        added = await add(rescue, found)
        move_slots(engine, slots[1])
        return added

    with monkeypatch.context() as patch:
        patch.setattr(Rescue, "add", meanwhile)
        await first.flush()
    query = "SELECT payload FROM message WHERE topic IN (SELECT id FROM topic WHERE namespace = %s)"
    rows = await first.execute(query, namespace) + await Shard(engine, namespace, name).execute(query, namespace)
    assert sorted(row[0] for row in rows if row[0] != b'"first"') == [b'"about to leave"', b'"carried"']


@pytest.mark.parametrize("more", [0, 40])  # few are offered to the heads in another way than many
async def test_what_one_client_sends_to_several_processes_keeps_its_order(
    opened: Open, namespace: str, more: int
) -> None:
    """Each has its own ids to give: those of the process that began first are lower, whenever it gives them."""
    shards = [await buffered(await opened(), namespace) for _ in range(2)]
    sent = []
    for n in range(12 + more):
        result = await shards[n % 3 % 2].put(n)
        sent += result.ids
    assert sent != sorted(sent, key=int)
    await shards[0].flush()
    for engine in (shard.engine for shard in shards):
        assert not engine.hot.is_away
    assert await shards[1].bodies() == list(range(12 + more))


async def test_what_is_sent_after_a_move_does_not_come_before_what_was_sent_before_it(
    opened: Open, namespace: str
) -> None:
    engine = await opened()
    old = await buffered(engine, namespace)
    await old.put("before")
    move_slots(engine, slot_of(namespace, "t"))
    new = Shard(engine, namespace)
    assert new.database is not old.database
    sending = asyncio.create_task(new.put("after"))
    await asyncio.sleep(0.3)
    assert not sending.done()
    await new.flush()
    assert await new.bodies() == []
    await old.flush()  # carries it over
    assert (await sending).buffered
    await new.flush()
    assert await new.bodies() == ["before", "after"]


async def test_who_waits_too_long_for_what_was_sent_before_a_move_is_refused(
    opened: Open, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shards.patience.PATIENCE_S", 0.2)
    engine = await opened()
    old = await buffered(engine, namespace)
    await old.put("before")
    move_slots(engine, slot_of(namespace, "t"))
    with pytest.raises(SlotMoved):
        await old.put("too early")
    await old.flush()
    await until(lambda: not engine.buffering._draining)
    assert (await old.put("after")).buffered


async def test_room_for_what_is_logged_stays_taken_until_that_is_committed(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqueue.engine.uncommitted.RENEW_S", 0.5)
    engine, one = shard.engine, message(shard.namespace, "t", 1)
    limit(engine, shard.namespace, max_stored=5)  # one is there, and leased
    assert (await engine.enqueue_within_quotas("p", [one] * 4)).buffered
    for _ in range(4):  # each counts anew what the shard has
        with pytest.raises(QuotaExceeded):
            await engine.enqueue_within_quotas("p", [one])
        await asyncio.sleep(0.4)
    await shard.flush()
    with pytest.raises(QuotaExceeded):
        await engine.enqueue_within_quotas("p", [one])
    found = await take(engine, shard.namespace, "t", limit=2)
    await engine.ack("c", [Settle(done.id, shard.namespace, "t", done.receipt) for done in found])

    async def is_taken() -> bool:
        with contextlib.suppress(QuotaExceeded):
            return (await engine.enqueue_within_quotas("p", [one] * 2)).buffered
        return False

    await until(is_taken)
    with pytest.raises(QuotaExceeded):
        await engine.enqueue_within_quotas("p", [one])


async def test_what_cannot_be_carried_over_holds_up_its_own_log_alone(
    opened: Open, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shard to which it has moved is down."""
    leaving = await buffered(await opened(), namespace)
    other = await opened()
    names = (f"t{n}" for n in range(1000))
    name = next(one for one in names if slot_of(namespace, one) * 2 // SLOTS == leaving.database.number)
    staying = await buffered(other, namespace, name)
    await leaving.put("leaves", 1)
    await staying.put(2)
    move_slots(leaving.engine, slot_of(namespace, "t"))
    leaving.engine.cluster.slots._refreshing.cancel()  # type: ignore[union-attr]

    async def down(*_: Any) -> int:
        raise ShardUnavailable("down")

    with monkeypatch.context() as patch:
        patch.setattr(Rescue, "add", down)
        for _ in range(3):
            await leaving.flushing.flush(0)
        assert await staying.bodies() == [2]
        await staying.put(3)
        for _ in range(3):
            await leaving.flushing.flush(0)
        assert await staying.bodies() == [3]
    arrived = Shard(leaving.engine, namespace)

    async def is_carried() -> bool:
        await leaving.flushing.flush(0)
        query = "SELECT m.id FROM message m JOIN topic t ON t.id = m.topic WHERE namespace = %s"
        return len(await arrived.execute(query, namespace)) == 2

    await until(is_carried)
    assert await arrived.bodies() == ["leaves", 1]


async def test_a_flusher_that_takes_over_again_knows_what_others_have_committed(shard: Shard) -> None:
    """It stood by meanwhile: to what it had known before, what they have committed looks like a gap."""
    other = shard.another_flusher()
    for n, flusher in enumerate((shard.flushing, other, shard.flushing, other)):
        await shard.put(n)
        await flusher.flush(0)
        assert not flusher.is_held
        assert await shard.bodies() == [n]


@pytest.mark.parametrize("sent_later", [True, False])
async def test_what_a_flusher_had_committed_when_it_died_is_not_overtaken(
    shard: Shard, monkeypatch: pytest.MonkeyPatch, sent_later: bool
) -> None:
    """Nobody had offered it to the heads yet."""
    prefetcher = Prefetcher(
        shard.database, shard.engine.hot[shard.database], shard.engine.hot.building(shard.database.number or 0)
    )
    for _ in range(3):
        await prefetcher.run_once()

    class DeadError(Exception):
        pass

    async def die(*_: Any) -> None:
        raise DeadError

    await shard.put("first")
    with monkeypatch.context() as patch:
        patch.setattr("mqueue.engine.flushing.offer_rows", die)
        with pytest.raises(DeadError):
            await shard.flush()
    if sent_later:
        await shard.put("second")
    successor = shard.another_flusher()
    while await successor.flush(0):
        pass
    assert await shard.bodies() == (["first", "second"] if sent_later else ["first"])
    await prefetcher.leave()


async def test_a_shard_that_lacks_a_table_has_no_record_set_aside_for_it(shard: Shard) -> None:
    await shard.put(1)
    await shard.execute("ALTER TABLE level RENAME TO level_away")
    try:
        with pytest.raises(ShardUnavailable):
            await shard.flush()
    finally:
        await shard.execute("ALTER TABLE level_away RENAME TO level")
    await shard.flush()
    assert await shard.bodies() == [1]
    assert await shard.execute("SELECT number FROM buffer_refused WHERE record IS NOT NULL") == []


async def test_a_record_that_cannot_be_committed_is_set_aside_and_holds_up_no_other(shard: Shard) -> None:
    for n in range(10):
        await shard.put(n, priority=256 if n == 4 else 5)  # its like never passes the API
    await shard.flush()
    assert await shard.bodies() == [n for n in range(10) if n != 4]
    ((error, number),) = await shard.execute("SELECT error, number FROM buffer_refused")
    assert "priority" in error
    assert number == 5
    await shard.execute("DELETE FROM buffer_refused")


async def test_a_record_that_is_there_already_is_passed(shard: Shard, redis_client: "redis.Redis") -> None:
    for n in range(3):
        await shard.put(n)
    await shard.flush()
    await shard.execute("DELETE FROM buffer_mark")
    redis_client.flushdb()
    again = shard.another_flusher()
    await shard.put(3)
    while await again.flush(0):
        pass
    assert await shard.bodies() == list(range(4))


async def test_a_topic_that_has_moved_finds_its_messages(shard: Shard) -> None:
    await shard.put("moved")
    slots = shard.engine.cluster.slots
    here, before = shard.database.number, slots._owners
    slots._owners = slots._owners_for_writers = tuple(1 - owner if owner == here else owner for owner in before)
    try:
        there = Shard(shard.engine, shard.namespace)
        assert there.database is not shard.database
        slots._refreshing.cancel()  # type: ignore[union-attr]
        await shard.flush()
        query = "SELECT payload FROM message m JOIN topic t ON t.id = m.topic WHERE namespace = %s"
        assert await there.execute(query, shard.namespace) == [(b'"moved"',)]
    finally:
        slots._owners = slots._owners_for_writers = before
    assert await shard.bodies() == []


async def test_damage_is_set_aside_and_what_is_intact_comes(
    opened: Open, namespace: str, redis_client: "redis.Redis", tmp_path: Path
) -> None:
    first = await opened()
    shard = await buffered(first, namespace)
    for n in range(6):
        await shard.put(f"record {n}")
    await opened.close(first)
    redis_client.flushdb()
    (path,) = wal_files(tmp_path)
    data = bytearray(path.read_bytes())
    data[data.index(b"record 3")] ^= 1
    path.write_bytes(data)
    heir = Shard(await opened(), namespace)
    await until(lambda: redis_client.xlen(heir.buffer._keys[0]) >= 2)
    await heir.flush()
    assert await heir.bodies() == [f"record {n}" for n in (0, 1, 2, 4, 5)]
    await until(lambda: not list((tmp_path / "wal/writers").iterdir()))
    assert len(WalDir(tmp_path / "wal").quarantined()) == 1


async def test_who_ends_while_a_log_is_removed_keeps_its_lock_until_it_is(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wal = WalDir(tmp_path / "wal")
    folder, remove = wal.make_writer(), WriterFolder.remove
    adopting = Adopting(wal, engine.cluster, engine.hot)
    adopting._estates = [Estate(folder, [])]
    began, goes_on = threading.Event(), threading.Event()

    def remove_slowly(folder: WriterFolder) -> None:
        began.set()
        goes_on.wait(5)
        remove(folder)

    monkeypatch.setattr(WriterFolder, "remove", remove_slowly)
    looking = asyncio.create_task(adopting.look())
    await asyncio.to_thread(began.wait, 5)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    adopting.close()
    assert list(wal.inherit()) == []
    goes_on.set()
    await until(lambda: not folder.path.exists())


async def test_an_entry_that_was_damaged_in_redis_is_pushed_again(shard: Shard, redis_client: "redis.Redis") -> None:
    await shard.put("a")
    ((number, fields),) = redis_client.xrange(shard.buffer._keys[0])
    redis_client.xdel(shard.buffer._keys[0], number)
    redis_client.xadd(shard.buffer._keys[0], {**fields, b"d": fields[b"d"][:-1] + b"?"})
    assert await shard.flushing.flush(0)
    await until(lambda: redis_client.xlen(shard.buffer._keys[0]))
    await shard.flush()
    assert await shard.bodies() == ["a"]


async def test_old_links_of_marks_are_dropped_and_the_last_stays(shard: Shard) -> None:
    for n in range(4):
        await shard.put(n)
        await shard.flush()
    await shard.execute("UPDATE buffer_mark SET at = now() - interval '2 hours'")
    assert (await shard.execute(statement("forget_marks").replace("%(limit)s", "100")))[0][0] >= 3
    await shard.put(4)
    await shard.flush()
    assert await shard.bodies() == list(range(5))
