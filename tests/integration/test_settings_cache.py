"""What a process knows of settings, quotas and keys, against the real control database."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from mqueue.core import credentials
from mqueue.core.conf import Conf
from mqueue.core.errors import ControlUnavailable, ShardUnavailable
from shards.cluster import Cluster
from shards.pools import Database
from tenants import settings_cache
from tenants.settings_cache import SettingsCache
from tenants.snapshot import DEFAULTS, NO_QUOTAS, Quotas
from tests.proxy import Proxy, proxy

Control = "psycopg.Connection[tuple[Any, ...]]"
SOON_S = 2.0


@pytest.fixture
def control(configuration: Conf) -> Iterator[Any]:
    with psycopg.connect(configuration.control_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
async def cache(cluster: Cluster) -> AsyncIterator[SettingsCache]:
    cache = SettingsCache(cluster.control, {"seeded": 600})
    await cache.open()
    yield cache
    await cache.close()


def make_topic(control: Any, namespace: str, name: str = "t") -> int:
    control.execute("INSERT INTO namespace (name) VALUES (%s) ON CONFLICT DO NOTHING", [namespace])
    row = control.execute(
        "INSERT INTO topic (namespace_id, name) SELECT id, %s FROM namespace WHERE name = %s RETURNING id",
        [name, namespace],
    ).fetchone()
    return int(row[0])


def make_key(control: Any, namespace: str) -> str:
    control.execute("INSERT INTO namespace (name) VALUES (%s) ON CONFLICT DO NOTHING", [namespace])
    kid = credentials.new_kid()
    control.execute(
        "INSERT INTO namespace_key (kid, namespace_id, name, kind, scopes, material, created_at, created_by) "
        "SELECT %s, id, 'k', 'api_key', '{enqueue}', 'x', now(), 'test' FROM namespace WHERE name = %s",
        [kid, namespace],
    )
    return kid


async def until(condition: Any, patience_s: float = SOON_S) -> float:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < patience_s, "not soon enough"
        await asyncio.sleep(0.01)
    return time.monotonic() - began


async def test_settings_are_seen_and_go_back_to_the_defaults(
    cache: SettingsCache, control: Any, namespace: str
) -> None:
    number = make_topic(control, namespace)
    assert cache.topic(number) is DEFAULTS
    control.execute(
        "INSERT INTO topic_settings (topic_id, paused, visibility_ms, retry_base_ms, rate_capacity, rate_refill_per_s) "
        "VALUES (%s, true, 5000, 7, 10, 2.5)",
        [number],
    )
    await until(lambda: cache.topic(number).paused)
    found = cache.topic(number)
    assert (found.visibility_ms, found.max_retries, found.tracing) == (5000, DEFAULTS.max_retries, True)
    assert (found.retry.base_ms, found.retry.max_ms) == (7, DEFAULTS.retry.max_ms)
    assert found.rate
    assert (found.rate.capacity, found.rate.refill_per_s) == (10, 2.5)
    control.execute("UPDATE topic_settings SET visibility_ms = NULL WHERE topic_id = %s", [number])
    await until(lambda: cache.topic(number).visibility_ms == DEFAULTS.visibility_ms)
    control.execute("DELETE FROM topic_settings WHERE topic_id = %s", [number])
    await until(lambda: cache.topic(number) is DEFAULTS)


async def test_quotas_are_seeded_and_a_record_counts_before_the_seed(cache: SettingsCache, control: Any) -> None:
    assert cache.quota("seeded") == Quotas(messages_per_minute=600)
    assert cache.quota("another") == NO_QUOTAS
    control.execute("INSERT INTO namespace (name) VALUES ('seeded') ON CONFLICT DO NOTHING")
    control.execute(
        "INSERT INTO namespace_quota (namespace_id, max_stored) SELECT id, 5 FROM namespace WHERE name = 'seeded'"
    )
    await until(lambda: cache.quota("seeded") == Quotas(max_stored=5))
    control.execute("UPDATE namespace_quota SET max_stored = NULL")
    await until(lambda: cache.quota("seeded") == NO_QUOTAS)
    control.execute("DELETE FROM namespace_quota")
    await until(lambda: cache.quota("seeded") == Quotas(messages_per_minute=600))


async def test_a_key_is_known_and_revoked_within_a_second(cache: SettingsCache, control: Any, namespace: str) -> None:
    took = []
    for _ in range(5):
        kid = make_key(control, namespace)
        await until(lambda kid=kid: cache.key(kid))
        control.execute("UPDATE namespace_key SET revoked_at = now() WHERE kid = %s", [kid])
        took.append(await until(lambda kid=kid: not cache.key(kid)))
    assert max(took) < 1.0, took


async def test_a_change_that_commits_late_is_not_missed(
    cache: SettingsCache, control: Any, configuration: Conf, namespace: str
) -> None:
    """Its version is taken while it runs; whoever comes after waits for it."""
    first, second = make_topic(control, namespace, "a"), make_topic(control, namespace, "b")
    with psycopg.connect(configuration.control_url) as slow:
        slow.execute("INSERT INTO topic_settings (topic_id, paused) VALUES (%s, true)", [first])
        other = asyncio.create_task(asyncio.to_thread(pause, configuration, second))
        await asyncio.sleep(1.2)
        assert not other.done()
        assert cache.topic(first) is cache.topic(second) is DEFAULTS
        slow.commit()
    await other
    await until(lambda: cache.topic(first).paused and cache.topic(second).paused)


def pause(configuration: Conf, number: int) -> None:
    with psycopg.connect(configuration.control_url) as connection:
        connection.execute("INSERT INTO topic_settings (topic_id, paused) VALUES (%s, true)", [number])


async def test_topics_with_defaults_alone_cost_nothing(cache: SettingsCache, control: Any, namespace: str) -> None:
    before = version(control)
    for n in range(50):
        make_topic(control, namespace, f"t{n}")
    assert version(control) == before
    await asyncio.sleep(0.7)
    assert not cache._topics.keys() & {make_topic(control, namespace, "one more")}


def version(control: Any) -> int:
    return int(control.execute("SELECT version FROM settings_version").fetchone()[0])


async def test_a_restored_control_database_is_read_anew(cache: SettingsCache, control: Any, namespace: str) -> None:
    kid = make_key(control, namespace)
    await until(lambda: cache.key(kid))
    with control.transaction():  # as the dump of an hour ago has it: an older version, and no such key
        control.execute("ALTER TABLE namespace_key DISABLE TRIGGER USER")
        control.execute("DELETE FROM namespace_key WHERE kid = %s", [kid])
        control.execute("ALTER TABLE namespace_key ENABLE TRIGGER USER")
        control.execute("UPDATE settings_version SET version = version - 1")
    await until(lambda: not cache.key(kid))
    control.execute("UPDATE settings_version SET version = version + 10")


async def test_when_a_key_was_used_is_written_down_once_a_minute(
    cache: SettingsCache, control: Any, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, unused = make_key(control, namespace), make_key(control, namespace)
    await until(lambda: cache.key(used) and cache.key(unused))
    key, before = cache.key(used), version(control)
    assert key
    key.was_used = True
    monkeypatch.setattr(settings_cache, "NOTE_USE_EVERY_S", 0.0)
    await until(lambda: not key.was_used)

    def last_used() -> list[Any]:
        rows = control.execute(
            "SELECT last_used_at FROM namespace_key WHERE kid IN (%s, %s) ORDER BY id", [used, unused]
        )
        return [row[0] for row in rows.fetchall()]

    await until(lambda: last_used()[0])
    assert last_used()[1] is None
    assert version(control) == before  # no process has to read it again
    assert cache.key(used) is key


class Counting:
    """The control database, and how often it is asked."""

    def __init__(self, control: Database) -> None:
        self._control, self.asked = control, 0

    def connection(self) -> Any:
        self.asked += 1
        return self._control.connection()


async def test_a_flood_of_unknown_kids_costs_ten_looks_a_second(cluster: Cluster) -> None:
    counting = Counting(cluster.control)
    cache = SettingsCache(counting, {})
    await cache.open()
    began, known = time.monotonic(), credentials.new_kid()
    while time.monotonic() - began < 1.0:
        await asyncio.gather(*(cache.look_for(credentials.new_kid()) for _ in range(100)), cache.look_for(known))
    assert counting.asked <= 13
    asked = counting.asked
    began = time.monotonic()
    for _ in range(1000):
        await cache.look_for(known)
    assert time.monotonic() - began < 0.1
    assert counting.asked <= asked + 1
    await cache.close()


async def test_a_key_that_was_just_made_is_found_at_once(cache: SettingsCache, control: Any, namespace: str) -> None:
    for _ in range(5):
        kid = make_key(control, namespace)
        began = time.monotonic()
        await cache.look_for(kid)
        assert cache.key(kid)
        assert time.monotonic() - began < 0.4


@pytest.fixture
async def behind(configuration: Conf) -> AsyncIterator[tuple[Proxy, SettingsCache]]:
    """A cache whose control database can be taken away."""
    async with proxy() as door:
        name = configuration.control_url.split("/")[-1].split("?")[0]
        control = Database("the control database", door.url(name), configuration.pool)
        await control.open()
        cache = SettingsCache(control, {})
        await cache.open()
        yield door, cache
        await cache.close()
        await control.close()


async def test_known_keys_hold_for_ten_minutes_without_the_control_database(
    behind: tuple[Proxy, SettingsCache], control: Any, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, cache = behind
    kid, number = make_key(control, namespace), make_topic(control, namespace)
    pause_in = control.execute("INSERT INTO topic_settings (topic_id, paused) VALUES (%s, true)", [number])
    assert pause_in.rowcount == 1
    await until(lambda: cache.key(kid) and cache.topic(number).paused, 5)
    await door.refuse()
    await asyncio.sleep(1.0)
    assert cache.key(kid)
    with pytest.raises(ControlUnavailable):
        await cache.look_for(credentials.new_kid())
    now = time.monotonic()
    monkeypatch.setattr(settings_cache.time, "monotonic", lambda: now + 601)
    assert cache.key(kid) is None
    assert cache.topic(number).paused
    monkeypatch.undo()
    assert cache.key(kid)
    await door.open()
    control.execute("UPDATE namespace_key SET revoked_at = now() WHERE kid = %s", [kid])
    await until(lambda: not cache.key(kid), 5)


async def test_it_opens_without_the_control_database_and_catches_up(configuration: Conf, control: Any) -> None:
    async with proxy() as door:
        name = configuration.control_url.split("/")[-1].split("?")[0]
        await door.refuse()
        database = Database("the control database", door.url(name), configuration.pool)
        await database.open()
        cache = SettingsCache(database, {})
        await cache.open()
        with pytest.raises(ShardUnavailable):
            await cache.look_for(credentials.new_kid())
        await door.open()
        await until(lambda: cache._version == version(control), 5)
        with contextlib.suppress(ControlUnavailable):
            await cache.look_for(credentials.new_kid())
        await cache.close()
        await database.close()
