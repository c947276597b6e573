"""The slot map and the ids, with and without the control database."""

import asyncio
import time
from collections.abc import AsyncIterator

import psycopg
import pytest

from mqueue.core.conf import Conf
from mqueue.core.errors import ControlUnavailable
from shards import ids as ids_module
from shards.cluster import Cluster
from shards.ids import BLOCK, Ids
from shards.pools import Database
from shards.routing import SLOTS, slot_of
from shards.slotmap import SlotMap
from tests.proxy import Proxy, proxy
from tests.servers import conf_of


@pytest.fixture
async def control(configuration: Conf) -> AsyncIterator[tuple[Database, Proxy]]:
    name = configuration.control_url.split("@/")[1].split("?")[0]
    async with proxy() as between:
        database = Database("control", between.url(name), configuration.pool)
        await database.open()
        yield database, between
        await database.close()


async def test_every_slot_has_an_owner(control: tuple[Database, Proxy]) -> None:
    slots = SlotMap(control[0])
    await slots.open()
    assert slots.version == 1
    assert [slots.owner(slot) for slot in (0, 511, 512, 1023)] == [0, 0, 1, 1]
    await slots.close()


async def test_the_map_outlives_an_outage_of_the_control_database(control: tuple[Database, Proxy]) -> None:
    database, between = control
    slots = SlotMap(database)
    await slots.open()
    await between.refuse()
    await asyncio.sleep(0.3)
    assert slots.owner(1023) == 1
    await slots.close()


async def test_without_a_map_nobody_guesses(control: tuple[Database, Proxy]) -> None:
    database, between = control
    await between.refuse()
    slots = SlotMap(database)
    await slots.open()
    with pytest.raises(ControlUnavailable):
        slots.owner(0)
    await between.open()
    for _ in range(100):
        if slots.version:
            break
        await asyncio.sleep(0.05)
    assert slots.owner(0) == 0
    await slots.close()


async def test_a_new_version_is_taken_up(fresh_databases: str) -> None:
    conf = conf_of(fresh_databases, 0)
    cluster = Cluster(conf)
    await cluster.open()
    topic = next(f"t{n}" for n in range(1000) if slot_of("a", f"t{n}") == 0 or slot_of("a", f"t{n}") < 512)
    assert cluster.shard_of_topic("a", topic) is cluster.shards[0]
    with psycopg.connect(conf.control_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO slot_map (owners, reason, created_at) "
            "SELECT array_fill(1::smallint, ARRAY[%s]), 'test', now()",
            [SLOTS],
        )
    await cluster.slots.refresh()
    assert cluster.slots.version == 2
    assert cluster.shard_of_topic("a", topic) is cluster.shards[1]
    assert cluster.shard_of_id(0) is cluster.shards[1]
    await cluster.close()


async def test_processes_never_share_an_id(control: tuple[Database, Proxy], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids_module, "BLOCK", 16)
    processes = [Ids(control[0]) for _ in range(4)]
    taken: list[int] = []

    async def take(ids: Ids) -> None:
        for count in (1, 5, 3, 16, 1, 7) * 5:
            first = await ids.take(count)
            taken.extend(range(first, first + count))

    await asyncio.gather(*(take(ids) for ids in processes for _ in range(2)))
    assert len(taken) == len(set(taken)) == 8 * 5 * 33


async def test_the_sequence_numbers_of_one_request_are_in_a_row(control: tuple[Database, Proxy]) -> None:
    ids = Ids(control[0])
    first = await ids.take(10_000)
    assert await ids.take(1) >= first + 10_000


async def test_a_block_is_kept_ahead_so_that_an_outage_is_not_felt(control: tuple[Database, Proxy]) -> None:
    database, between = control
    ids = Ids(database)
    await ids.take(1)
    await asyncio.sleep(0.2)
    await between.refuse()
    await asyncio.sleep(0.1)
    for _ in range(2):
        await ids.take(BLOCK - 1)
    with pytest.raises(ControlUnavailable):
        await ids.take(BLOCK)
    await between.open()
    deadline = time.monotonic() + 3
    while True:
        try:
            await ids.take(BLOCK)
        except ControlUnavailable:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        else:
            return
