"""A page of large messages costs what it answers: 16 MiB of payload, and not a thousand times 256 KiB."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import psycopg
import pytest

from mqueue.core.conf import Conf
from mqueue.core.messages import MAX_PAYLOAD, MAX_REQUEST, DeadPage, Find
from mqueue.core.searches import TOP, DeadFilter
from mqueue.engine import dead, dead_search, look
from mqueue.engine.contents import READ_AT_ONCE
from mqueue.engine.engine import Engine
from shards.routing import slot_of
from tests.integration.messages import message, send
from tests.letters import bury

MANY = 2 * READ_AT_ONCE + 10
FIT = MAX_REQUEST // MAX_PAYLOAD  # of the largest


@contextmanager
def bounded(monkeypatch: pytest.MonkeyPatch, room: ModuleType) -> Iterator[None]:
    """No more payload is read than for a portion, whatever is asked for."""
    read: list[int] = []
    fetch = room.fetch

    async def weighed(*asked: Any) -> list[Any]:
        rows: list[Any] = await fetch(*asked)
        read.extend(len(value) for row in rows for value in row if isinstance(value, bytes))
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(room, "fetch", weighed)
        yield
    assert 0 < sum(read) <= READ_AT_ONCE * MAX_PAYLOAD


@pytest.fixture
async def letters(engine: Engine, configuration: Conf, namespace: str) -> list[int]:
    """The ids of many of the largest dead letters, that of those which died first last."""
    await send(engine, message(namespace))
    slot = slot_of(namespace, "t")
    with psycopg.connect(configuration.shard_urls[slot * 2 // 1024], autocommit=True) as shard:
        row = shard.execute("SELECT id FROM topic WHERE namespace = %s", [namespace]).fetchone()
        assert row
        bury(shard, row[0], slot, MANY, payload=b"x" * MAX_PAYLOAD)
        named = "SELECT id FROM dead_letter WHERE topic = %s ORDER BY id"
        return [found[0] for found in shard.execute(named, row)]


async def test_of_dead_letters(
    engine: Engine, namespace: str, letters: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with bounded(monkeypatch, dead):
        found = await engine.dead.page(DeadPage(namespace, limit=1_000))
    assert [one.id for one in found] == letters[:FIT]


async def test_of_a_search_among_dead_letters(
    engine: Engine, namespace: str, letters: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with bounded(monkeypatch, dead_search):
        found, end = await engine.dead_search.page(namespace, DeadFilter(), TOP, 1_000)
    assert [one.id for one in found] == letters[:FIT]
    assert end.next


async def test_of_a_peek(engine: Engine, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    large = message(namespace, body="x" * (MAX_PAYLOAD - 2))
    ids = [number for _ in range(MANY // FIT + 1) for number in await send(engine, *[large] * FIT)]
    with bounded(monkeypatch, look):
        found = await engine.look.find(Find(namespace, "t", limit=1_000))
    assert [one.id for one in found] == ids[:FIT]


async def test_of_small_ones_goes_on_to_its_limit(engine: Engine, configuration: Conf, namespace: str) -> None:
    ids = await send(engine, *[message(namespace, body=n) for n in range(MANY)])
    found = await engine.look.find(Find(namespace, "t", limit=MANY - 1))
    assert [one.id for one in found] == ids[:-1]
    slot = slot_of(namespace, "t")
    with psycopg.connect(configuration.shard_urls[slot * 2 // 1024], autocommit=True) as shard:
        row = shard.execute("SELECT id FROM topic WHERE namespace = %s", [namespace]).fetchone()
        assert row
        bury(shard, row[0], slot, MANY)
    dead_ids = [one.id for one in await engine.dead.page(DeadPage(namespace, limit=1_000))]
    assert len(dead_ids) == MANY
    assert [one.id for one in await engine.dead.page(DeadPage(namespace, limit=MANY - 1))] == dead_ids[:-1]
    assert [one.id for one in (await engine.dead_search.page(namespace, DeadFilter(), TOP, 1_000))[0]] == dead_ids
