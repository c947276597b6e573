"""Enqueue, dequeue, ack and the lapse of leases, straight on PostgreSQL."""

import asyncio
from typing import Any, LiteralString

import msgspec
import pytest

from mqueue.core import receipts
from mqueue.core.errors import Leased, NamespaceNotFound, NotFound, NotLeased, StaleReceipt
from mqueue.core.messages import Delivered, Dequeue, Move, Retry, Settle
from mqueue.engine.claims import Claimed, Claims
from mqueue.engine.engine import Engine
from mqueue.engine.settle import Settled
from mqueue.engine.topics import Topics
from shards.cluster import Cluster
from shards.routing import SLOTS, slot_of
from shards.sql import statement
from tenants.settings_cache import SettingsCache
from tests.integration.messages import message, send

ACKED = Settled("acked")


async def take(engine: Engine, namespace: str, topic: str = "t", limit: int = 100, **more: Any) -> list[Delivered]:
    return await engine.dequeue("c", Dequeue(namespace, topic, limit=limit, **more))


def bodies(found: list[Delivered]) -> list[Any]:
    return [msgspec.json.decode(one.body) for one in found]  # type: ignore[arg-type]


async def test_ids_are_in_the_order_of_the_request_and_name_their_slot(engine: Engine, namespace: str) -> None:
    ids = await send(engine, *(message(namespace, f"t{n % 7}") for n in range(50)))
    assert ids == sorted(ids, key=lambda number: number // SLOTS)
    assert [number % SLOTS for number in ids] == [slot_of(namespace, f"t{n % 7}") for n in range(50)]


async def test_the_order_is_priority_then_time_then_id(engine: Engine, namespace: str) -> None:
    await send(engine, message(namespace, body="c", priority=5), message(namespace, body="d", priority=5))
    await send(engine, message(namespace, body="e", priority=5), message(namespace, body="a", priority=0))
    await send(engine, message(namespace, body="f", priority=255), message(namespace, body="b", priority=1))
    assert bodies(await take(engine, namespace, limit=4)) == ["a", "b", "c", "d"]
    assert bodies(await take(engine, namespace)) == ["e", "f"]


async def test_topics_that_nobody_consumed_yet_share_claims_and_mix_nothing(
    engine: Engine, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [f"t{n}" for n in range(60)]
    await send(engine, *(message(namespace, t, body=[t, p], priority=p) for p in (7, 3, 5) for t in topics))
    await send(engine, *(message(namespace, t, body="later", priority=0, delay_ms=60_000) for t in topics))
    statements: list[str] = []
    claim = Claims._claim

    async def counted(self: Claims, query: LiteralString, columns: dict[str, Any]) -> dict[int, Claimed]:
        statements.append(query)
        return await claim(self, query, columns)

    monkeypatch.setattr(Claims, "_claim", counted)
    asked = [take(engine, namespace, t, limit=limit) for t in topics for limit in (1, 2, 1)]
    found = await asyncio.gather(*asked)
    assert [bodies(one) for one in found] == [part for t in topics for part in ([[t, 3]], [[t, 5], [t, 7]], [])]
    assert set(statements) == {statement("claim")}
    assert len(statements) < 20


async def test_what_is_not_due_does_not_stand_in_the_way(engine: Engine, namespace: str) -> None:
    await send(engine, *(message(namespace, body="later", priority=0, delay_ms=60_000) for _ in range(20)))
    await send(engine, message(namespace, body="now", priority=255))
    assert bodies(await take(engine, namespace)) == ["now"]


async def test_a_delayed_message_comes_when_it_is_due_and_not_before(engine: Engine, namespace: str) -> None:
    await send(engine, message(namespace, delay_ms=400))
    assert await take(engine, namespace) == []
    (found,) = await take(engine, namespace, wait_ms=5_000)
    assert found.deliver_after
    assert (found.deliver_after - found.enqueued_at).total_seconds() == pytest.approx(0.4, abs=0.001)


async def test_a_lease_is_exclusive(engine: Engine, namespace: str) -> None:
    await send(engine, *(message(namespace, body=n) for n in range(200)))
    batches = await asyncio.gather(*(take(engine, namespace, limit=30) for _ in range(12)))
    numbers = [number for batch in batches for number in bodies(batch)]
    assert sorted(numbers) == list(range(200))


async def test_an_expired_lease_brings_the_message_again_with_a_new_receipt(
    engine: Engine, namespace: str, lapse_now: Any
) -> None:
    (number,) = await send(engine, message(namespace))
    (first,) = await take(engine, namespace)
    await lapse_now(number)
    (second,) = await take(engine, namespace)
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.receipt != second.receipt
    assert isinstance((await ack(engine, namespace, number, first.receipt)), StaleReceipt)
    assert await ack(engine, namespace, number, second.receipt) == ACKED


async def test_used_up_attempts_end_in_a_dead_letter(engine: Engine, namespace: str, lapse_now: Any) -> None:
    (number,) = await send(engine, message(namespace, max_retries=2))
    for attempt in (1, 2, 3):
        (found,) = await take(engine, namespace)
        assert found.attempt == attempt
        await lapse_now(number)
    assert await take(engine, namespace) == []


async def ack(engine: Engine, namespace: str, number: int, receipt: str | None = None, topic: str = "t") -> object:
    (outcome,) = await engine.ack("c", [Settle(number, namespace, topic, receipt)])
    return outcome


async def test_an_ack_needs_no_receipt_but_a_lease(engine: Engine, namespace: str) -> None:
    (number,) = await send(engine, message(namespace))
    assert isinstance(await ack(engine, namespace, number), NotLeased)
    await take(engine, namespace)
    assert await ack(engine, namespace, number) == ACKED
    assert isinstance(await ack(engine, namespace, number), NotLeased)


async def test_an_ack_repeated_with_its_receipt_is_told_yes_again(engine: Engine, namespace: str) -> None:
    (number,) = await send(engine, message(namespace))
    (found,) = await take(engine, namespace)
    for _ in range(3):
        assert await ack(engine, namespace, number, found.receipt) == ACKED


async def test_a_receipt_of_another_message_or_none_of_ours_is_stale(engine: Engine, namespace: str) -> None:
    (number,) = await send(engine, message(namespace))
    (found,) = await take(engine, namespace)
    _, epoch = receipts.unseal(found.receipt) or (0, 0)
    forged = [receipts.seal(number, other) for other in (epoch + 1, 2**31 - 1, 2**31, 2**32 - 1)]
    for receipt in ("nonsense", receipts.seal(number + SLOTS, epoch), *forged):
        assert isinstance(await ack(engine, namespace, number, receipt), StaleReceipt)
    assert await ack(engine, namespace, number, found.receipt) == ACKED


async def test_what_nobody_holds_any_more_is_moved_though_nobody_has_judged_its_lease(
    engine: Engine, namespace: str
) -> None:
    at_once = Retry(strategy="constant", base_ms=0, jitter=0)
    (number, last) = await send(engine, message(namespace, retry=at_once), message(namespace, max_retries=0))
    await take(engine, namespace, limit=2, visibility_ms=1_000)
    for one in (number, last):
        with pytest.raises(Leased):
            await engine.waiting.move("m", one, Move(namespace, "t", priority=7))
    await asyncio.sleep(1.01)
    assert await engine.waiting.move("m", number, Move(namespace, "t", priority=7, delay_ms=0)) == "ready"
    (found,) = await take(engine, namespace)
    assert (found.id, found.attempt, found.priority) == (number, 2, 7)
    with pytest.raises(NotFound):  # that was its last try
        await engine.waiting.move("m", last, Move(namespace, "t", priority=7))


async def test_an_id_of_another_topic_is_not_leased_here(engine: Engine, namespace: str) -> None:
    (number,) = await send(engine, message(namespace))
    (found,) = await take(engine, namespace)
    await send(engine, message(namespace, "other"))
    assert isinstance(await ack(engine, namespace, number, found.receipt, "other"), NotLeased)
    assert isinstance(await ack(engine, namespace, number, found.receipt, "never-made"), NotLeased)


async def test_a_batch_of_acks_answers_each(engine: Engine, namespace: str) -> None:
    await send(engine, *(message(namespace, f"t{n}") for n in range(6)))
    found = [row for n in range(6) for row in await take(engine, namespace, f"t{n}")]
    settles = [Settle(row.id, namespace, row.topic, row.receipt) for row in found]
    settles.insert(2, Settle(1, namespace, "t0"))
    outcomes = await engine.ack("c", settles)
    assert [type(outcome) for outcome in outcomes] == [Settled] * 2 + [NotLeased] + [Settled] * 4


async def test_headers_traceparent_and_payload_come_back(engine: Engine, namespace: str) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"a": "ü", "b": '"quoted"'}
    await send(engine, message(namespace, body={"deep": [1, None, "\u0000"]}, headers=headers, traceparent=trace))
    (found,) = await take(engine, namespace)
    assert (msgspec.json.decode(found.headers), found.traceparent) == (headers, trace)
    assert bodies([found]) == [{"deep": [1, None, "\u0000"]}]


async def test_a_topic_nobody_made_reads_as_empty(engine: Engine, namespace: str) -> None:
    assert await take(engine, namespace) == []


async def test_a_poll_that_waits_sees_what_arrives(engine: Engine, namespace: str) -> None:
    waiting = asyncio.create_task(take(engine, namespace, wait_ms=5_000))
    await asyncio.sleep(0.2)
    await send(engine, message(namespace, body="arrived"))
    assert bodies(await waiting) == ["arrived"]


async def test_racing_first_messages_make_a_topic_once(cluster: Cluster, namespace: str) -> None:
    processes = [Topics(cluster, SettingsCache(cluster.control, {}), auto_create_namespaces=True) for _ in range(8)]
    names = [(namespace, f"t{n}") for n in range(5)]
    found = await asyncio.gather(*(topics.find_or_make(names) for topics in processes))
    assert all(numbers == found[0] for numbers in found)
    assert len(set(found[0].values())) == 5


async def test_namespaces_are_not_made_where_that_is_off(cluster: Cluster, namespace: str) -> None:
    strict = Topics(cluster, SettingsCache(cluster.control, {}), auto_create_namespaces=False)
    with pytest.raises(NamespaceNotFound):
        await strict.find_or_make([(namespace, "t")])
    await Topics(cluster, SettingsCache(cluster.control, {}), auto_create_namespaces=True).find_or_make(
        [(namespace, "t")]
    )
    assert await strict.find_or_make([(namespace, "another")])


async def test_batches_of_the_same_acks_in_any_order_do_not_fail(engine: Engine, namespace: str) -> None:
    for _ in range(10):
        await send(engine, *(message(namespace) for _ in range(100)))
        settles = [Settle(row.id, namespace, "t", row.receipt) for row in await take(engine, namespace)]
        orders = [settles, settles[::-1], settles[50:] + settles[:50], settles[::2] + settles[1::2]]
        for outcomes in await asyncio.gather(*(engine.ack("c", order) for order in orders)):
            assert outcomes == [ACKED] * 100


async def test_racing_batches_of_new_namespaces_do_not_fail(cluster: Cluster, namespace: str) -> None:
    names = [(f"{namespace[:40]}-{n}", "t") for n in range(300)]
    orders = [names, names[::-1], names[150:] + names[:150], names[::3] + names[1::3] + names[2::3]]
    processes = [Topics(cluster, SettingsCache(cluster.control, {}), auto_create_namespaces=True) for _ in orders]
    found = await asyncio.gather(*(topics.find_or_make(order) for topics, order in zip(processes, orders, strict=True)))
    assert all(numbers == found[0] for numbers in found)


async def test_a_message_past_its_ttl_dies_as_expired(
    engine: Engine, cluster: Cluster, namespace: str, lapse_now: Any
) -> None:
    (waiting,) = await send(engine, message(namespace, ttl_ms=50))
    (kept,) = await send(engine, message(namespace, ttl_ms=60_000))
    await asyncio.sleep(0.1)
    await lapse_now(waiting)
    async with cluster.shard_of_id(waiting).connection() as connection:
        cursor = await connection.execute(
            "SELECT id, reason, attempts FROM dead_letter WHERE id = ANY(%s)", [[waiting, kept]]
        )
        assert await cursor.fetchall() == [(waiting, "expired", 0)]


async def test_a_message_that_expired_is_not_handed_out(engine: Engine, namespace: str) -> None:
    await send(engine, message(namespace, body="short", ttl_ms=100), message(namespace, body="long", ttl_ms=60_000))
    await asyncio.sleep(0.2)
    assert bodies(await take(engine, namespace)) == ["long"]
