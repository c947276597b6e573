"""A missing partition never fails an enqueue, and making one stops nobody."""

import asyncio
import datetime
import threading

import psycopg
import pytest

from daemons import maintenance
from mqueue.core.messages import Dequeue
from mqueue.engine.engine import Engine
from shards import partitions
from shards.cluster import Cluster
from shards.databases import django_databases
from shards.partitions import DAYS_AHEAD
from tests.integration.messages import message, send
from tests.servers import conf_of

UTC = datetime.UTC


def partitions_of(url: str, parent: str) -> list[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass ORDER BY 1", [parent]
        )
        return [row[0] for row in rows.fetchall()]


def drop_partitions(url: str) -> None:
    with psycopg.connect(url) as connection:
        for parent in partitions.PARENTS:
            for child in partitions_of(url, parent):
                connection.execute(f"DROP TABLE {child}")  # type: ignore[call-overload]


def test_a_migrated_shard_has_partitions_ahead(fresh_databases: str) -> None:
    for url in conf_of(fresh_databases, 0).shard_urls:
        for parent in partitions.PARENTS:
            today = datetime.datetime.now(UTC).date()
            expected = [f"{parent}_{today + datetime.timedelta(n):%Y%m%d}" for n in range(DAYS_AHEAD + 1)]
            assert partitions_of(url, parent) == expected


async def test_messages_flow_where_every_partition_is_missing(fresh_databases: str) -> None:
    conf = conf_of(fresh_databases, 0)
    for url in conf.shard_urls:
        drop_partitions(url)
    engine = Engine(conf)
    await engine.open()
    ids = await send(engine, *(message(topic=f"t{n}") for n in range(8)))
    assert len(ids) == 8
    for url in conf.shard_urls:
        drop_partitions_of_events(url)
    found = [row for n in range(8) for row in await engine.dequeue("c", Dequeue("default", f"t{n}"))]
    assert sorted(row.id for row in found) == sorted(ids)
    await engine.close()


def drop_partitions_of_events(url: str) -> None:
    with psycopg.connect(url) as connection:
        for child in partitions_of(url, "event"):
            connection.execute(f"DROP TABLE {child}")  # type: ignore[call-overload]


async def test_a_message_for_a_far_day_lies_in_the_partition_of_that_day(fresh_databases: str) -> None:
    conf = conf_of(fresh_databases, 0)
    engine = Engine(conf)
    await engine.open()
    due = datetime.datetime.now(UTC) + datetime.timedelta(days=89)
    later = datetime.datetime(
        due.year, due.month, due.day, 23, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=-5))
    )
    await send(engine, message(deliver_after=due), message(delay_ms=60 * 86_400_000), message(deliver_after=later))
    names = [name for url in conf.shard_urls for name in partitions_of(url, "message")]
    assert f"message_{due:%Y%m%d}" in names
    assert f"message_{due + datetime.timedelta(1):%Y%m%d}" in names
    await engine.close()


async def test_times_long_past_mean_now_and_make_no_partitions(fresh_databases: str) -> None:
    conf = conf_of(fresh_databases, 0)
    engine = Engine(conf)
    await engine.open()
    before = [partitions_of(url, parent) for url in conf.shard_urls for parent in partitions.PARENTS]
    east = datetime.timezone(datetime.timedelta(hours=5))
    past = [datetime.datetime(year, 1, 1, tzinfo=UTC) for year in range(1000, 1400)]
    earliest = datetime.datetime(1, 1, 1, tzinfo=east)
    far = message(delay_ms=40 * 86_400_000)
    await send(engine, far, message(deliver_after=earliest), *(message(deliver_after=time) for time in past))
    after = [partitions_of(url, parent) for url in conf.shard_urls for parent in partitions.PARENTS]
    assert sum(map(len, after)) - sum(map(len, before)) == 4  # the far day, one on either side, and yesterday
    assert len(await engine.dequeue("c", Dequeue("default", "t", limit=1000))) == 401
    await engine.close()


async def test_racing_makers_make_each_partition_once(cluster: Cluster) -> None:
    days = [datetime.date(2031, 1, day) for day in range(1, 9)]
    made = await asyncio.gather(*(partitions.make(cluster.shards[0], days) for _ in range(6)))
    assert sum(made) == len(days) * len(partitions.PARENTS)


async def test_making_a_partition_waits_for_no_insert_and_stops_none(engine: Engine, cluster: Cluster) -> None:
    """An open transaction that has written to the table would hold up anything that wants the table for itself."""
    await send(engine, message(topic="warm"))
    shard = cluster.shard_of_topic("default", "warm")
    async with shard.connection() as connection, connection.transaction():
        await connection.execute("SELECT make_partition('message', '2032-01-01')")
        await connection.execute("SELECT make_partition('event', '2032-01-01')")
        async with asyncio.timeout(1):
            await send(engine, message(topic="warm"))
    async with shard.connection() as connection, connection.transaction():
        await connection.execute("LOCK TABLE message, event IN ROW EXCLUSIVE MODE")
        async with asyncio.timeout(1):
            assert await partitions.make(shard, [datetime.date(2032, 2, 1)]) == 2


async def test_only_the_two_logs_can_be_partitioned(cluster: Cluster) -> None:
    async with cluster.shards[0].connection() as connection:
        with pytest.raises(psycopg.errors.RaiseException):
            await connection.execute("SELECT make_partition('delivery', '2031-01-01')")


async def test_a_violated_check_is_not_taken_for_a_missing_partition(cluster: Cluster) -> None:
    calls = 0

    async def insert() -> None:
        nonlocal calls
        calls += 1
        async with cluster.shards[0].connection() as connection:
            await connection.execute(
                "INSERT INTO message (id, topic, day, payload_bytes, priority, is_json, payload) "
                "VALUES (1, 1, now()::date, 0, 999, false, '')"
            )

    with pytest.raises(psycopg.errors.CheckViolation):
        await partitions.with_partitions(cluster.shards[0], (), insert)
    assert calls == 1


def test_the_maintenance_task_makes_what_is_missing(monkeypatch: pytest.MonkeyPatch, fresh_databases: str) -> None:
    conf = conf_of(fresh_databases, 0)
    drop_partitions(conf.shard_urls[1])
    monkeypatch.setattr(maintenance, "conf", lambda: conf)
    made: list[int] = []
    thread = threading.Thread(target=lambda: made.append(maintenance.make_partitions()))
    thread.start()
    thread.join()
    assert made == [2 * (DAYS_AHEAD + 1)]
    assert len(partitions_of(conf.shard_urls[1], "message")) == DAYS_AHEAD + 1


def test_django_sees_each_shard_by_its_alias(fresh_databases: str) -> None:
    databases = django_databases(conf_of(fresh_databases, 0))
    assert list(databases) == ["default", "shard_0", "shard_1"]
    assert databases["shard_1"]["NAME"] == f"{fresh_databases}_shard_1"
