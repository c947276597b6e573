"""Limits that processes share, against the real Redis: each engine here stands for a process."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from mqueue.core.conf import Conf
from mqueue.core.errors import QuotaExceeded, RateLimited, ShardUnavailable, TooLarge
from mqueue.core.gcra import Ask, Bucket, Refusal, per_minute, per_second
from mqueue.core.messages import Dequeue, Nack, Settle
from mqueue.engine.buckets import Buckets
from mqueue.engine.engine import Engine
from mqueue.engine.levels import LEASED, STORED, Counts, Levels, Room
from mqueue.hot import keys
from mqueue.hot.connection import connect
from mqueue.hot.limits import Limits
from tenants.snapshot import Quotas, Rate, TopicSettings
from tests.integration.messages import message


@pytest.fixture
async def redis(configuration: Conf) -> "AsyncIterator[Redis]":
    client = connect(configuration.redis, timeout_s=2, text=True)
    yield client
    await client.aclose()


@pytest.fixture
def processes(redis: "Redis") -> list[Buckets]:
    return [Buckets(Limits(redis), 1) for _ in range(3)]


@pytest.fixture
async def other(configuration: Conf) -> AsyncIterator[Engine]:
    """A second process."""
    engine = Engine(configuration)
    await engine.open()
    yield engine
    await engine.close()


def limit(engine: Engine, namespace: str, **quotas: int) -> None:
    engine.settings.limited = {**engine.settings.limited, namespace: Quotas(**quotas)}


async def counted(
    buckets: list[Buckets], bucket: Bucket, name: str, seconds: float, wanted: int = 1, *, patient: bool = True
) -> int:
    """Tokens that all of them get in a time, each asking again and again by several callers."""
    ends, found = time.monotonic() + seconds, 0

    async def ask(one: Buckets) -> None:
        nonlocal found
        while time.monotonic() < ends:
            answer = await one.take([Ask(name, bucket, wanted, wanted)])
            if isinstance(answer, Refusal):
                await asyncio.sleep(min(0.02, answer.wait_us / 1e6) if patient else 0)
            else:
                found += answer[0]
                await asyncio.sleep(0)

    await asyncio.gather(*(ask(one) for one in buckets for _ in range(4)))
    return found


async def test_below_a_hundred_a_second_it_is_exact(processes: list[Buckets], namespace: str) -> None:
    bucket = per_minute(3_000)  # 50 a second, 300 at once
    began = time.monotonic()
    found = await counted(processes, bucket, namespace, 2.0)
    took = time.monotonic() - began
    assert 300 + 0.9 * 50 * 2.0 <= found <= 300 + 50 * took + 1


async def test_above_it_is_right_to_two_hundredths(processes: list[Buckets], namespace: str) -> None:
    bucket = per_second(1_000, 1_000)
    began = time.monotonic()
    found = await counted(processes, bucket, namespace, 2.0)
    took = time.monotonic() - began
    assert found <= 1.02 * (1_000 + 1_000 * took)
    ask = Ask(namespace, bucket, 5_000, 1)  # what a busy machine was too slow to take is there still
    left = await processes[0].take([ask])
    found += 0 if isinstance(left, Refusal) else left[0]
    assert found >= 0.98 * (1_000 + 1_000 * took)


async def test_who_does_not_wait_as_told_costs_no_more_calls(
    processes: list[Buckets], namespace: str, monkeypatch: Any
) -> None:
    calls = 0
    real = Limits.take

    async def take(limits: Limits, requests: Any) -> Any:
        nonlocal calls
        calls += 1
        return await real(limits, requests)

    monkeypatch.setattr(Limits, "take", take)
    began = time.monotonic()
    found = await counted(processes, per_second(200, 200), namespace, 2.0, patient=False)
    took = time.monotonic() - began
    # Each token is got by a call at most, and each process is told once that the next is not there yet. However fast
    # the machine is, there is no more to ask.
    assert calls <= found + len(processes) * (200 * took + 1)


async def test_a_load_below_a_large_quota_costs_few_calls(
    engine: Engine, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    real = Limits.take

    async def take(limits: Limits, requests: Any) -> Any:
        nonlocal calls
        calls += 1
        return await real(limits, requests)

    monkeypatch.setattr(Limits, "take", take)
    limit(engine, namespace, messages_per_minute=60_000)
    for _ in range(300):
        assert (await engine.enqueue_within_quotas("p", [message(namespace)])).error is None
    assert 0 < calls < 300 / 4


async def test_all_of_a_request_or_nothing(processes: list[Buckets], namespace: str) -> None:
    one, other, _ = processes
    few, many = (Ask(f"{name}:{namespace}", per_minute(quota), 5, 5) for name, quota in (("few", 60), ("many", 600)))
    assert await one.take([few, many]) == [5, 5]
    refused = await other.take([many, few])
    assert isinstance(refused, Refusal)
    assert (refused.ask, 3.9e6 < refused.wait_us <= 4e6) == (1, True)
    assert await other.take([many._replace(wanted=55, least=55)]) == [55]  # nothing was taken of it
    await one.give_back([few])
    await asyncio.sleep(0.1)  # for so long the other believes what it was told
    assert await other.take([few]) == [5]


async def test_as_many_as_there_are(processes: list[Buckets], namespace: str) -> None:
    ask = Ask(namespace, per_second(10, 7), 100, 1)
    assert await processes[0].take([ask]) == [7]
    refused = await processes[1].take([ask])
    assert isinstance(refused, Refusal)
    assert 80_000 < refused.wait_us <= 100_000
    await asyncio.sleep(refused.wait_us / 1e6)
    assert await processes[1].take([ask]) == [1]


async def test_tokens_in_hand_are_worth_nothing_after_a_second(processes: list[Buckets], namespace: str) -> None:
    buckets, ask = processes[0], Ask(namespace, Bucket(1_000.0, 20_000.0), 1, 1)  # 20 at once
    assert await buckets.take([ask]) == [1]
    assert buckets._hands[namespace].tokens == 10
    buckets._hands[namespace].until = time.monotonic()
    await asyncio.sleep(0.05)
    assert not buckets._take_from_hand([ask])


async def test_a_setting_that_changed_leaves_no_debt_behind(processes: list[Buckets], namespace: str) -> None:
    await processes[0].take([Ask(namespace, per_second(0.001, 1_000), 1_000, 1)])  # eleven days until it is full
    refused = await processes[0].take([Ask(namespace, per_second(10, 5), 1, 1)])
    assert isinstance(refused, Refusal)
    assert refused.wait_us <= 100_000


async def test_a_redis_that_lost_everything_gives_no_second_burst(processes: list[Buckets], redis: "Redis") -> None:
    ask = Ask("lost", per_minute(600), 60, 60)
    assert await processes[0].take([ask]) == [60]
    await redis.delete(*[key async for key in redis.scan_iter(match=f"{keys.limits()}*")])
    assert isinstance(await processes[0].take([ask]), Refusal)
    await redis.delete(f"{keys.limits()}born")  # or later tests would begin with empty buckets


async def test_without_redis_each_process_keeps_its_share(
    configuration: Conf, redis: "Redis", namespace: str, monkeypatch: Any
) -> None:
    limits = [Limits(redis) for _ in range(2)]
    processes = [Buckets(one, 2) for one in limits]
    bucket = Bucket(each_us=10_000, full_us=1e6)  # 100 a second
    await counted(processes, bucket, namespace, 0.1)

    async def hanging(*_: Any, **__: Any) -> None:
        await asyncio.sleep(0.25)
        raise TimeoutError

    for one in limits:
        monkeypatch.setattr(one, "_take", hanging)
    began = time.monotonic()
    found = await counted(processes, bucket, namespace, 2.0)
    took = time.monotonic() - began
    assert 20 <= found <= 100 * took + 3


# Quotas of enqueues.


async def test_a_request_above_the_burst_is_too_large(engine: Engine, namespace: str) -> None:
    limit(engine, namespace, messages_per_minute=50)
    with pytest.raises(TooLarge):
        await engine.enqueue_within_quotas("p", [message(namespace)] * 6)
    began = time.monotonic()
    assert (await engine.enqueue_within_quotas("p", [message(namespace)] * 5)).error is None
    with pytest.raises(QuotaExceeded) as refused:
        await engine.enqueue_within_quotas("p", [message(namespace)])
    assert 1.2 - (time.monotonic() - began) <= (refused.value.retry_after_s or 0) <= 1.2


async def test_bytes_are_those_of_the_payloads(engine: Engine, namespace: str) -> None:
    limit(engine, namespace, bytes_per_minute=1_000)
    with pytest.raises(TooLarge):
        await engine.enqueue_within_quotas("p", [message(namespace, body="x" * 99)])  # and its quotes
    began = time.monotonic()
    await engine.enqueue_within_quotas("p", [message(namespace, body="x" * 58), message(namespace, body="x" * 38)])
    with pytest.raises(QuotaExceeded) as refused:
        await engine.enqueue_within_quotas("p", [message(namespace, body="x" * 48)])
    assert 3.0 - (time.monotonic() - began) <= (refused.value.retry_after_s or 0) <= 3.0


async def test_headers_count_as_bytes_and_are_given_back(engine: Engine, namespace: str) -> None:
    limit(engine, namespace, bytes_per_minute=1_000)
    with pytest.raises(TooLarge):
        await engine.enqueue_within_quotas("p", [message(namespace, headers={"n": "ü" * 50})])  # 102 with the body
    once, other = (message(namespace, headers={"ö": "x" * 87}, idempotency_key=key) for key in "ko")
    await engine.enqueue_within_quotas("p", [once])
    with pytest.raises(QuotaExceeded):
        await engine.enqueue_within_quotas("p", [other])
    limit(engine, namespace, bytes_per_minute=10_000)
    for _ in range(30):  # it is there already
        assert (await engine.enqueue_within_quotas("p", [once])).duplicates == 1
    assert (await engine.enqueue_within_quotas("p", [other])).duplicates == 0  # so there is room


async def test_what_was_not_added_is_given_back(engine: Engine, namespace: str, monkeypatch: Any) -> None:
    limit(engine, namespace, messages_per_minute=50, max_stored=5)
    once = message(namespace, idempotency_key="k")
    await engine.enqueue_within_quotas("p", [once])
    for _ in range(10):  # each is there already
        assert (await engine.enqueue_within_quotas("p", [once, once])).duplicates == 2

    async def failing(*_: Any) -> None:
        raise ShardUnavailable

    admission = engine.enqueue_within_quotas.__self__  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setattr(admission, "_enqueue", failing)
        for _ in range(10):
            with pytest.raises(ShardUnavailable):
                await engine.enqueue_within_quotas("p", [message(namespace)] * 4)
    assert (await engine.enqueue_within_quotas("p", [message(namespace)] * 4)).error is None


async def test_a_refusal_by_one_namespace_takes_nothing_of_another(engine: Engine, namespace: str) -> None:
    limit(engine, namespace, messages_per_minute=50)
    full = f"{namespace[:50]}-full"
    limit(engine, full, messages_per_minute=50, max_stored=1)
    await engine.enqueue_within_quotas("p", [message(full)])
    for _ in range(5):
        with pytest.raises(QuotaExceeded):
            await engine.enqueue_within_quotas("p", [message(namespace)] * 5 + [message(full)])
    assert (await engine.enqueue_within_quotas("p", [message(namespace)] * 5)).error is None


# Levels.


async def test_no_number_of_racing_requests_stores_more_than_the_most(
    engine: Engine, other: Engine, namespace: str
) -> None:
    for one in (engine, other):
        limit(one, namespace, max_stored=20)

    async def add(one: Engine) -> int:
        try:
            return len((await one.enqueue_within_quotas("p", [message(namespace)] * 3)).ids)
        except QuotaExceeded:
            return 0

    assert sum(await asyncio.gather(*(add(one) for one in (engine, other) * 20))) == 18
    found = await engine.dequeue("c", Dequeue(namespace, "t", limit=4))
    with pytest.raises(QuotaExceeded):
        await other.enqueue_within_quotas("p", [message(namespace)] * 3)  # what is leased is stored
    await engine.nack("c", [Nack(one.id, namespace, "t", one.receipt, dead=True) for one in found])
    with pytest.raises(QuotaExceeded):
        await other.enqueue_within_quotas("p", [message(namespace)] * 3)  # and so is what is dead
    (one,) = await engine.dequeue("c", Dequeue(namespace, "t"))
    await engine.ack("c", [Settle(one.id, namespace, "t", one.receipt)])
    assert (await other.enqueue_within_quotas("p", [message(namespace)] * 3)).error is None


async def test_no_number_of_racing_consumers_holds_more_leases_than_the_most(
    engine: Engine, other: Engine, namespace: str
) -> None:
    await engine.enqueue("p", [message(namespace) for _ in range(100)])
    for one in (engine, other):
        limit(one, namespace, max_in_flight=17)

    async def take(one: Engine, **more: Any) -> list[Any]:
        try:
            return list(await one.dequeue("c", Dequeue(namespace, "t", **more)))
        except QuotaExceeded:
            return []

    found = await asyncio.gather(*(take(one, limit=3) for one in (engine, other) * 15))
    held = [one for part in found for one in part]
    assert len(held) == 17
    for _ in range(3):  # each that ends lets one more out, at once
        await engine.ack("c", [Settle(held[0].id, namespace, "t", held[0].receipt)])
        held = held[1:] + await take(other, limit=10)
        assert len(held) == 17


async def test_what_is_held_for_minutes_stays_reserved(engine: Engine, namespace: str) -> None:
    levels = Levels(engine.hot.limits, Counts(engine.cluster), 1)
    assert await levels.reserve(STORED, namespace, 4, 4, 10)
    old = Room(STORED, namespace, 3, int(time.time() // 60) - 5)
    renewed = await levels.renew(old)
    assert renewed.period >= old.period + 5
    found = await levels.reserve(STORED, namespace, 10, 1, 10)
    assert found
    assert found.granted == 3
    await levels.settle(renewed, 0)
    found = await levels.reserve(STORED, namespace, 10, 1, 10)
    assert found
    assert found.granted == 3


async def test_a_poll_waits_for_a_lease_to_end(engine: Engine, other: Engine, namespace: str) -> None:
    await engine.enqueue("p", [message(namespace) for _ in range(3)])
    for one in (engine, other):
        limit(one, namespace, max_in_flight=1)
    (held,) = await engine.dequeue("c", Dequeue(namespace, "t"))
    poll = asyncio.create_task(other.dequeue("c", Dequeue(namespace, "t", wait_ms=10_000)))
    await asyncio.sleep(0.5)
    assert not poll.done()
    await engine.ack("c", [Settle(held.id, namespace, "t", held.receipt)])
    assert len(await asyncio.wait_for(poll, 1.0)) == 1
    assert await engine.dequeue("c", Dequeue(namespace, "t", wait_ms=300)) == []


async def test_without_redis_levels_are_kept_by_counting(engine: Engine, namespace: str, monkeypatch: Any) -> None:
    async def away(*_: Any, **__: Any) -> None:
        return None

    monkeypatch.setattr(engine.hot.limits, "_call", away)
    limit(engine, namespace, max_stored=5, max_in_flight=2)
    added = 0
    for _ in range(10):
        with contextlib.suppress(QuotaExceeded):
            added += len((await engine.enqueue_within_quotas("p", [message(namespace)])).ids)
    assert added == 5
    assert len(await engine.dequeue("c", Dequeue(namespace, "t", limit=10))) == 2
    with pytest.raises(QuotaExceeded):
        await engine.dequeue("c", Dequeue(namespace, "t", limit=10))


async def test_what_a_killed_process_has_reserved_is_forgotten(engine: Engine, redis: "Redis", namespace: str) -> None:
    levels = engine.enqueue_within_quotas.__self__._levels  # type: ignore[attr-defined]
    room = await levels.reserve(STORED, namespace, 5, 5, 5)
    assert room
    assert await levels.reserve(STORED, namespace, 1, 1, 5) is None
    assert await levels.reserve(LEASED, namespace, 1, 1, 5)
    name = f"{keys.limits()}l:stored:{namespace}"
    await redis.hset(name, f"p{room.period - 2}", 5)  # type: ignore[misc]  as it will stand two minutes later
    await redis.hdel(name, f"p{room.period}")  # type: ignore[misc]
    assert await levels.reserve(STORED, namespace, 5, 5, 5)


# Rates of topics.


async def rated(engine: Engine, namespace: str, rate: Rate, count: int = 20) -> None:
    await engine.enqueue("p", [message(namespace, body=n) for n in range(count)])
    topics = engine.dequeue.__self__._topics  # type: ignore[attr-defined]
    number = await topics.find((namespace, "t"))
    engine.settings._topics[number] = TopicSettings(rate=rate)


async def test_a_topic_hands_out_at_its_rate(engine: Engine, namespace: str) -> None:
    await rated(engine, namespace, Rate(5, 0.5))
    began = time.monotonic()
    assert len(await engine.dequeue("c", Dequeue(namespace, "t", limit=20))) == 5
    with pytest.raises(RateLimited) as refused:
        await engine.dequeue("c", Dequeue(namespace, "t"))
    assert refused.value.code == "rate_limited"
    assert 2.0 - (time.monotonic() - began) <= (refused.value.retry_after_s or 0) <= 2.0
    await asyncio.sleep(refused.value.retry_after_s or 0)
    assert len(await engine.dequeue("c", Dequeue(namespace, "t", limit=20))) == 1


async def test_who_waits_is_served_when_there_is_a_token_again(
    engine: Engine, namespace: str, monkeypatch: Any
) -> None:
    await rated(engine, namespace, Rate(1, 2))
    assert len(await engine.dequeue("c", Dequeue(namespace, "t"))) == 1
    calls = 0
    real = Limits.take

    async def take(limits: Limits, requests: Any) -> Any:
        nonlocal calls
        calls += 1
        return await real(limits, requests)

    monkeypatch.setattr(Limits, "take", take)
    began = time.monotonic()
    polls = [asyncio.create_task(engine.dequeue("c", Dequeue(namespace, "t", wait_ms=5_000))) for _ in range(3)]
    for n in range(3):
        await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
        done = [poll for poll in polls if poll.done()]
        polls = [poll for poll in polls if not poll.done()]
        assert [len(poll.result()) for poll in done] == [1]
        assert 0.5 * (n + 1) - 0.05 < time.monotonic() - began < 0.5 * (n + 1) + 0.3
    assert calls < 12


async def test_a_dequeue_of_nothing_costs_no_token(engine: Engine, namespace: str) -> None:
    await rated(engine, namespace, Rate(3, 0.01), count=1)
    (found,) = await engine.dequeue("c", Dequeue(namespace, "t", limit=3))
    for _ in range(5):
        assert await engine.dequeue("c", Dequeue(namespace, "t", limit=3)) == []
    await engine.release("c", [Settle(found.id, namespace, "t", found.receipt)])
    assert len(await engine.dequeue("c", Dequeue(namespace, "t", limit=3))) == 1
