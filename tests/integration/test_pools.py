"""Connections to a shard: limits, losses and recovery, against a real server."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from mqueue.core.conf import Conf, Pool
from mqueue.core.errors import ShardUnavailable, Undecided
from shards.clock import NOW, Clock
from shards.pools import Database
from tests.proxy import Proxy, proxy

LIMITS = Pool(
    min_size=1,
    max_size=3,
    connect_timeout_s=2,
    acquire_timeout_ms=300,
    statement_timeout_ms=400,
    lock_timeout_ms=150,
)


@pytest.fixture
async def between() -> AsyncIterator[Proxy]:
    async with proxy() as between:
        yield between


@pytest.fixture
async def database(between: Proxy, configuration: Conf) -> AsyncIterator[Database]:
    name = configuration.shard_urls[0].split("@/")[1].split("?")[0]
    database = Database("shard 0", between.url(name), LIMITS, 0)
    await database.open()
    yield database
    await database.close()


async def ask(database: Database, statement: str = "SELECT 1") -> object:
    async with database.connection() as connection:
        row = await (await connection.execute(statement)).fetchone()  # type: ignore[call-overload]
    return row[0] if row else None


async def until_answers(database: Database, patience_s: float) -> float:
    began = time.monotonic()
    while True:
        try:
            await ask(database)
        except ShardUnavailable:
            assert time.monotonic() - began < patience_s, "the shard did not come back"
            await asyncio.sleep(0.02)
        else:
            return time.monotonic() - began


async def test_a_connection_has_time_limits_and_utc(database: Database) -> None:
    assert await ask(database, "SHOW statement_timeout") == "400ms"
    assert await ask(database, "SHOW lock_timeout") == "150ms"
    assert await ask(database, "SHOW idle_in_transaction_session_timeout") == "800ms"
    assert await ask(database, "SHOW timezone") == "UTC"


async def test_a_slow_statement_is_ended(database: Database) -> None:
    began = time.monotonic()
    with pytest.raises(ShardUnavailable):
        await ask(database, "SELECT pg_sleep(30)")
    assert time.monotonic() - began < 2


async def test_the_pool_is_bounded_and_waiting_is_too(database: Database) -> None:
    async def hold() -> None:
        async with database.connection():
            await asyncio.sleep(1)

    holders = [asyncio.create_task(hold()) for _ in range(LIMITS.max_size)]
    await asyncio.sleep(0.2)
    began = time.monotonic()
    with pytest.raises(ShardUnavailable):
        await ask(database)
    assert 0.2 < time.monotonic() - began < 0.8
    await asyncio.gather(*holders)


async def test_a_mistake_in_a_statement_does_not_count_against_the_shard(database: Database) -> None:
    for _ in range(10):
        with pytest.raises(psycopg.errors.UndefinedTable):
            await ask(database, "SELECT * FROM there_is_no_such_table")
    assert database.is_up


async def test_terminated_idle_backends_cost_no_request(database: Database, configuration: Conf) -> None:
    async def pid() -> object:
        async with database.connection() as connection:
            await asyncio.sleep(0.1)
            return connection.info.backend_pid

    pids = await asyncio.gather(*(pid() for _ in range(LIMITS.max_size)))
    assert len(set(pids)) == LIMITS.max_size
    with psycopg.connect(configuration.shard_urls[0], autocommit=True) as other:
        for number in pids:
            other.execute("SELECT pg_terminate_backend(%s, 2000)", [number])
    await asyncio.sleep(0.1)  # the proxy has to pass the news on
    assert await asyncio.gather(*(ask(database) for _ in range(LIMITS.max_size))) == [1] * LIMITS.max_size
    assert database.is_up


async def test_a_backend_terminated_at_work_costs_its_request(database: Database, configuration: Conf) -> None:
    asking = asyncio.create_task(ask(database, "SELECT pg_sleep(0.3)"))
    await asyncio.sleep(0.1)
    with psycopg.connect(configuration.shard_urls[0], autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND query LIKE '%pg_sleep(0.3)'"
        )
    with pytest.raises(Undecided):
        await asking
    assert await ask(database) == 1


async def test_a_connection_lost_in_the_middle_leaves_it_undecided(database: Database, between: Proxy) -> None:
    asking = asyncio.create_task(ask(database, "SELECT pg_sleep(0.3)"))
    await asyncio.sleep(0.15)
    between.cut()
    with pytest.raises(Undecided):
        await asking


async def test_a_shard_that_is_gone_is_refused_at_once_and_found_when_it_returns(
    database: Database, between: Proxy
) -> None:
    await ask(database)
    await between.refuse()
    deadline = time.monotonic() + 1
    while database.is_up:
        with pytest.raises(ShardUnavailable):
            await ask(database)
        assert time.monotonic() < deadline, "the breaker did not open within a second"
    began = time.monotonic()
    for _ in range(100):
        with pytest.raises(ShardUnavailable) as refused:
            await ask(database)
    assert time.monotonic() - began < 0.2
    assert refused.value.retry_after_s
    assert database.trouble

    await between.open()
    assert await until_answers(database, 3) < 3
    assert database.trouble == ""


async def test_those_who_wait_for_a_connection_are_told_when_the_breaker_opens(
    between: Proxy, configuration: Conf
) -> None:
    name = configuration.shard_urls[0].split("@/")[1].split("?")[0]
    database = Database("shard 0", between.url(name), replace(LIMITS, acquire_timeout_ms=30_000), 0)
    await between.refuse()
    await database.open()
    try:
        began = time.monotonic()
        with pytest.raises(ShardUnavailable):
            await ask(database)
        assert time.monotonic() - began < 1
    finally:
        await database.close()


async def test_a_network_that_swallows_everything_ends_in_an_error_not_a_hang(
    database: Database, between: Proxy
) -> None:
    await ask(database)
    between.freeze()
    began = time.monotonic()
    with pytest.raises(ShardUnavailable):
        await ask(database)
    assert time.monotonic() - began < 3
    between.thaw()
    await until_answers(database, 5)


async def test_one_caller_is_enough_to_find_that_a_server_is_silent(database: Database, between: Proxy) -> None:
    """Those who ask after him need not wait as long."""
    await ask(database)
    between.freeze()
    with pytest.raises(ShardUnavailable):
        await ask(database)
    assert not database.is_up
    began = time.monotonic()
    with pytest.raises(ShardUnavailable):
        await ask(database)
    assert time.monotonic() - began < 0.1
    between.thaw()
    await until_answers(database, 5)


async def test_what_is_left_of_a_time_that_is_over_takes_nothing_down_again(database: Database, between: Proxy) -> None:
    """Connections that fell silent at the same time are found out one after the other."""
    await asyncio.gather(*(ask(database, "SELECT pg_sleep(0.05), 1") for _ in range(LIMITS.max_size)))
    between.freeze()
    first = asyncio.create_task(ask(database))
    await asyncio.sleep(0.5)
    second = asyncio.create_task(ask(database))
    await asyncio.sleep(0.1)
    between.strand()
    with pytest.raises(ShardUnavailable):
        await first
    await until_answers(database, 0.4)
    with pytest.raises(ShardUnavailable):
        await second
    assert database.is_up


async def test_a_lock_that_is_held_is_busy_and_no_fault_of_the_shard(database: Database, configuration: Conf) -> None:
    with psycopg.connect(configuration.shard_urls[0]) as holder:
        holder.execute("LOCK TABLE idempotency IN ACCESS EXCLUSIVE MODE")
        for _ in range(5):
            with pytest.raises(ShardUnavailable):
                await ask(database, "SELECT count(*) FROM idempotency")
    assert database.is_up


async def test_a_process_that_slept_in_a_transaction_is_told_to_try_again(configuration: Conf) -> None:
    database = Database("shard 0", configuration.shard_urls[0], replace(LIMITS, statement_timeout_ms=200), 0)
    await database.open()
    try:
        for _ in range(3):
            with pytest.raises(ShardUnavailable):
                async with database.connection() as connection, connection.transaction():
                    await connection.execute("SELECT 1")
                    await asyncio.sleep(0.55)  # the server is patient for 0.4 s, and we for 0.7
                    await connection.execute("SELECT 1")
        assert database.is_up
        assert await ask(database) == 1
    finally:
        await database.close()


async def test_waiting_callers_do_not_open_the_breaker(database: Database) -> None:
    async def hold() -> None:
        async with database.connection():
            await asyncio.sleep(0.6)

    answers = await asyncio.gather(*(hold() for _ in range(30)), return_exceptions=True)
    assert sum(isinstance(answer, ShardUnavailable) for answer in answers) > 10
    assert database.is_up


async def test_a_server_that_takes_no_more_connections_still_serves_those_it_has(
    between: Proxy, configuration: Conf
) -> None:
    name = configuration.shard_urls[0].split("@/")[1].split("?")[0]
    database = Database("shard 0", between.url(name), replace(LIMITS, acquire_timeout_ms=30_000), 0)
    await database.open()
    try:
        await ask(database)
        await between.refuse_new()
        answers = await asyncio.gather(*(ask(database, "SELECT pg_sleep(0.02), 1") for _ in range(6)))
        assert len(answers) == 6
        assert database.is_up
    finally:
        await database.close()


async def test_a_shard_that_dies_while_nobody_asks_is_noticed(database: Database, between: Proxy) -> None:
    await ask(database)
    await between.refuse()
    deadline = time.monotonic() + 4
    while database.is_up:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_a_server_that_freezes_after_its_restart_ends_in_errors_not_a_hang(
    database: Database, between: Proxy, configuration: Conf
) -> None:
    """One idle connection is ended, the others swallow everything."""

    async def pid() -> object:
        async with database.connection() as connection:
            await asyncio.sleep(0.1)
            return connection.info.backend_pid

    pids = await asyncio.gather(*(pid() for _ in range(LIMITS.max_size)))
    with psycopg.connect(configuration.shard_urls[0], autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 2000)", [pids[0]])
    await asyncio.sleep(0.1)
    between.freeze()
    began = time.monotonic()
    answers = await asyncio.gather(*(ask(database) for _ in range(LIMITS.max_size)), return_exceptions=True)
    assert all(isinstance(answer, ShardUnavailable) for answer in answers)
    assert time.monotonic() - began < 5
    between.thaw()
    await until_answers(database, 5)


async def test_a_shard_of_another_deployment_is_refused(configuration: Conf) -> None:
    foreign = Database("shard 0", configuration.shard_urls[0], LIMITS, 0, uuid.uuid4)
    await foreign.open()
    try:
        with pytest.raises(ShardUnavailable):
            await ask(foreign)
        assert "another deployment" in foreign.trouble
    finally:
        await foreign.close()


async def test_the_wrong_shard_is_refused(configuration: Conf) -> None:
    swapped = Database("shard 0", configuration.shard_urls[1], LIMITS, 0)
    await swapped.open()
    try:
        with pytest.raises(ShardUnavailable):
            await ask(swapped)
        assert "shard 1" in swapped.trouble
    finally:
        await swapped.close()


async def test_a_process_may_start_before_its_shard(between: Proxy, configuration: Conf) -> None:
    name = configuration.shard_urls[0].split("@/")[1].split("?")[0]
    await between.refuse()
    database = Database("shard 0", between.url(name), LIMITS, 0)
    await database.open()
    try:
        with pytest.raises(ShardUnavailable):
            await ask(database)
        await between.open()
        await until_answers(database, 3)
    finally:
        await database.close()


async def test_a_clock_that_was_measured_by_slow_answers_knows_how_late_it_may_be(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine that has too much to do."""
    execute, clock = AsyncConnection.execute, Clock(database)
    await ask(database)

    async def slowly(self: AsyncConnection[Any], *question: Any, **more: Any) -> Any:
        answer = await execute(self, *question, **more)
        await asyncio.sleep(0.05)
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(AsyncConnection, "execute", slowly)
        await clock.measure()
    server = await ask(database, NOW)
    assert isinstance(server, int)
    assert clock.now_us() < server <= clock.latest_us()
