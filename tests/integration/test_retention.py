"""Without a lake, days leave their shard when every topic's retention is over, and never with live deliveries."""

import datetime
import threading
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from daemons import maintenance
from mqueue.core.conf import Conf, Lake
from shards.retention import LogPartition, Terms, connected, drop, expired, is_over, log_partitions, terms
from tests.servers import conf_of, worker_number

TODAY = datetime.datetime.now(datetime.UTC).date  # asked each time: a run may pass midnight
A_MESSAGE = """
INSERT INTO message (id, topic, day, payload_bytes, priority, is_json, payload) VALUES (%s, %s, %s, 0, 5, false, '')
"""


def before(days: int) -> datetime.date:
    return TODAY() - datetime.timedelta(days)


@pytest.fixture
def fresh(fresh_databases: str) -> Conf:
    return conf_of(fresh_databases, worker_number())


@pytest.fixture
def shard(fresh: Conf) -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
    with connected(fresh.shard_urls[0]) as connection:
        for days in range(1, 13):
            for parent in ("message", "event"):
                connection.execute("SELECT make_partition(%s, %s)", [parent, before(days)])
        yield connection


def retained(conf: Conf, monkeypatch: pytest.MonkeyPatch) -> int:
    """What the task dropped: in a thread, as Celery runs it."""
    monkeypatch.setattr(maintenance, "conf", lambda: conf)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(maintenance.retain()))
    thread.start()
    thread.join()
    return found[0]


def days_there(connection: "psycopg.Connection[tuple[object, ...]]", parent: str) -> list[int]:
    return [
        (TODAY() - one.day).days for one in log_partitions(connection) if one.parent == parent and one.day < TODAY()
    ]


def test_days_past_their_retention_are_dropped(
    fresh: Conf, shard: "psycopg.Connection[tuple[object, ...]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    shard.execute(A_MESSAGE, [1, 1, before(12)])
    assert retained(fresh, monkeypatch) == 2 * 5
    assert days_there(shard, "message") == days_there(shard, "event") == [7, 6, 5, 4, 3, 2, 1]
    assert retained(fresh, monkeypatch) == 0


def test_with_a_lake_the_task_leaves_it_to_the_pipeline(
    fresh: Conf, shard: "psycopg.Connection[tuple[object, ...]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    assert retained(replace(fresh, lake=Lake("file:///nowhere", 0)), monkeypatch) == 0


def test_a_day_with_a_live_delivery_stays(fresh: Conf, shard: "psycopg.Connection[tuple[object, ...]]") -> None:
    shard.execute("INSERT INTO delivery (id, due, topic, day, priority) VALUES (1, now(), 1, %s, 5)", [before(10)])
    found = {(one.parent, (TODAY() - one.day).days) for one in expired(shard, Terms(7, {}))}
    assert ("message", 10) not in found
    assert ("message", 11) in found
    assert ("event", 10) in found


def test_a_topic_that_keeps_longer_keeps_the_days_that_it_has_messages_of(
    shard: "psycopg.Connection[tuple[object, ...]]",
) -> None:
    shard.execute(A_MESSAGE, [1, 77, before(9)])
    ended = {(TODAY() - one.day).days for one in expired(shard, Terms(7, {77: 11, 78: 3})) if one.parent == "message"}
    assert ended == {12, 11, 10, 8, 7, 6, 5, 4}  # the empty ones nobody wants
    assert {(TODAY() - one.day).days for one in expired(shard, Terms(3, {}))} == set(range(4, 13))


def test_terms_come_from_the_settings_and_are_never_shorter_than_a_key_lives(fresh: Conf) -> None:
    with psycopg.connect(fresh.control_url) as connection:
        connection.execute("INSERT INTO namespace (id, name) VALUES (1, 'n')")
        for number, days in ((1, 30), (2, 2)):
            connection.execute("INSERT INTO topic (id, namespace_id, name) VALUES (%s, 1, %s)", [number, f"t{number}"])
            connection.execute(
                "INSERT INTO topic_settings (topic_id, retention_days, paused) VALUES (%s, %s, false)", [number, days]
            )
    assert terms(fresh) == Terms(7, {1: 30, 2: 2})
    longer = replace(fresh, retention=replace(fresh.retention, dedupe_window_ms=20 * 86_400_000))
    assert terms(longer) == Terms(21, {1: 30, 2: 21})


@pytest.mark.parametrize(("days", "keep", "over"), [(8, 7, True), (7, 7, False), (2, 1, False), (3, 1, True)])
def test_a_day_is_over_when_its_last_moment_is_old_enough(days: int, keep: int, over: bool) -> None:
    assert is_over(before(days), TODAY(), keep) is over


def test_dropping_waits_for_no_insert_and_stops_none(
    fresh: Conf, shard: "psycopg.Connection[tuple[object, ...]]"
) -> None:
    with psycopg.connect(fresh.shard_urls[0], autocommit=True) as other:
        other.execute("SET statement_timeout = '1s'")
        for number, one in enumerate(expired(shard, Terms(7, {}))):
            drop(shard, one)
            other.execute(A_MESSAGE, [number, 1, TODAY()])


def test_a_drop_that_was_cut_off_is_finished_by_the_next(
    fresh: Conf, shard: "psycopg.Connection[tuple[object, ...]]"
) -> None:
    """A transaction that has seen the partition holds up the second half of its detaching."""
    (partition,) = [one for one in log_partitions(shard) if one.parent == "message" and one.day == before(12)]
    with psycopg.connect(fresh.shard_urls[0]) as reader:
        reader.execute("SELECT FROM message WHERE day = %s", [before(12)])
        shard.execute("SET statement_timeout = '300ms'")
        shard.execute("SET lock_timeout = 0")
        with pytest.raises(psycopg.errors.QueryCanceled):
            drop(shard, partition)
    (half,) = [one for one in log_partitions(shard) if one.name == partition.name]
    assert half.is_detaching
    drop(shard, half)
    assert partition.name not in {one.name for one in log_partitions(shard)}


def test_a_table_that_was_detached_and_not_dropped_is_found(shard: "psycopg.Connection[tuple[object, ...]]") -> None:
    (partition,) = [one for one in log_partitions(shard) if one.parent == "event" and one.day == before(12)]
    shard.execute(f"ALTER TABLE event DETACH PARTITION {partition.name}")  # type: ignore[arg-type]
    (found,) = [one for one in expired(shard, Terms(7, {})) if one.name == partition.name]
    assert found == LogPartition("event", before(12), is_sealed=False, is_attached=False, is_detaching=False)
    drop(shard, found)
    assert partition.name not in {one.name for one in log_partitions(shard)}
