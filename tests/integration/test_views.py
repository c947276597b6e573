"""The views for people, and the role that may read them and nothing else."""

import base64
import datetime
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest

from mqueue.core.conf import Conf
from mqueue.core.messages import Dequeue, Message, Settle
from mqueue.engine.engine import Engine
from mqueue.engine.settle import Settled
from shards.routing import slot_of
from tests.integration.messages import message, send
from tests.rollups import add_failure, add_hour

VIEWS = {"depth", "messages", "leases", "dead_letters", "oldest"}
CONTROL_VIEWS = {"usage_hour", "failures"}
Rows = list[dict[str, Any]]


@pytest.fixture
def namespace(namespace: str) -> str:
    """One whose topic `t` lies on the first shard."""
    return next(name for n in range(1000) if slot_of(name := f"{namespace}-{n}", "t") < 512)


@pytest.fixture
def reader(configuration: Conf) -> Iterator["psycopg.Connection[dict[str, Any]]"]:
    from psycopg.rows import dict_row

    with psycopg.connect(configuration.shard_urls[0], autocommit=True, row_factory=dict_row) as connection:
        connection.execute("SET ROLE mqueue_reader")
        yield connection


def look(reader: "psycopg.Connection[dict[str, Any]]", view: str, namespace: str) -> Rows:
    return reader.execute(
        f"SELECT * FROM mq.{view} WHERE namespace = %s ORDER BY 1, 2",
        [namespace],  # type: ignore[arg-type]
    ).fetchall()


async def test_messages_shows_each_with_its_state_and_text(engine: Engine, namespace: str, reader: Any) -> None:
    ready, scheduled, leased, acked = await send(
        engine,
        message(namespace, "t", {"n": "ready"}, priority=9),
        message(namespace, "t", "später", delay_ms=60_000),
        message(namespace, "t", "leased", priority=1),
        message(namespace, "t", "acked", priority=0),
    )
    await engine.dequeue("c", Dequeue(namespace, "t", limit=2))
    assert await engine.ack("c", [Settle(acked, namespace, "t")]) == [Settled("acked")]
    rows = {row["id"]: row for row in look(reader, "messages", namespace)}
    assert {number: row["state"] for number, row in rows.items()} == {
        ready: "ready",
        scheduled: "scheduled",
        leased: "leased",
        acked: "acked",
    }
    assert rows[ready]["payload"] == '{"n":"ready"}'
    assert rows[scheduled]["payload"] == '"später"'
    assert rows[leased]["lease_expires_at"] is not None
    assert (rows[acked]["attempts"], rows[leased]["attempts"], rows[ready]["attempts"]) == (1, 1, 0)
    assert {row["topic"] for row in rows.values()} == {"t"}


@pytest.mark.parametrize(
    ("payload", "text"),
    [(b"plain", "plain"), ("grün".encode(), "grün"), (b"\xff\x00a", "\\377\\000a"), (b"a\x00b", "a\\000b"), (b"", "")],
)
async def test_any_payload_has_a_text(engine: Engine, namespace: str, reader: Any, payload: bytes, text: str) -> None:
    one = msgspec.convert(
        {"namespace": namespace, "topic": "t", "payload": base64.b64encode(payload).decode()}, Message
    )
    await send(engine, one)
    assert [row["payload"] for row in look(reader, "messages", namespace)] == [text]


async def test_leases_shows_who_holds_what_until_when(engine: Engine, namespace: str, reader: Any) -> None:
    (held,) = await send(engine, message(namespace, "t"))
    await engine.dequeue("worker-7", Dequeue(namespace, "t", visibility_ms=40_000))
    (row,) = look(reader, "leases", namespace)
    assert (row["id"], row["topic"], row["attempt"], row["consumer"]) == (held, "t", 1, "worker-7")
    assert 30 < row["remaining"].total_seconds() <= 40
    assert row["leased_at"] < row["expires_at"]


async def test_dead_letters_shows_why(
    engine: Engine, namespace: str, reader: Any, shard_0: Any, lapse_now: Any
) -> None:
    (dead,) = await send(engine, message(namespace, "t", "poison", max_retries=0))
    await engine.dequeue("c", Dequeue(namespace, "t"))
    await lapse_now(dead)
    (row,) = look(reader, "dead_letters", namespace)
    assert (row["id"], row["reason"], row["error"], row["attempts"]) == (dead, "max_retries", "lease expired", 1)
    assert row["payload"] == '"poison"'
    assert look(reader, "messages", namespace)[0]["state"] == "dead"
    assert look(reader, "depth", namespace)[0]["dead"] == 1


async def test_depth_counts_by_state(engine: Engine, namespace: str, reader: Any) -> None:
    messages = [message(namespace, "t") for _ in range(5)] + [message(namespace, "t", delay_ms=60_000)] * 2
    await send(engine, *messages)
    await engine.dequeue("c", Dequeue(namespace, "t", limit=3))
    (row,) = look(reader, "depth", namespace)
    assert row == {"namespace": namespace, "topic": "t", "ready": 2, "scheduled": 2, "leased": 3, "dead": 0}


async def test_oldest_looks_past_what_is_not_due(engine: Engine, namespace: str, reader: Any) -> None:
    await send(engine, message(namespace, "t", priority=0, delay_ms=60_000))
    assert look(reader, "oldest", namespace) == []
    await send(engine, message(namespace, "t", priority=200))
    await send(engine, message(namespace, "t", priority=3))
    (row,) = look(reader, "oldest", namespace)
    first = min(row["enqueued_at"] for row in look(reader, "messages", namespace) if row["state"] == "ready")
    assert row["due"] == first
    assert 0 <= row["age"].total_seconds() < 60


def test_there_are_no_other_views(reader: Any) -> None:
    rows = reader.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'mq'").fetchall()
    assert {row["table_name"] for row in rows} == VIEWS


def test_the_reader_can_read_no_table(reader: Any, shard_0: Any) -> None:
    tables = shard_0.execute(
        "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
    ).fetchall()
    assert len(tables) > 10
    for (table,) in tables:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(f"SELECT * FROM {table} LIMIT 1")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO delivery (id, due, topic, day, priority) VALUES (1, now(), 1, now()::date, 1)",
        "UPDATE delivery SET priority = 0",
        "DELETE FROM mq.messages",
        "DELETE FROM mq.dead_letters",
        "TRUNCATE event",
        "DROP VIEW mq.depth",
        "CREATE TABLE mine (n int)",
        "CREATE TABLE mq.mine (n int)",
        "SELECT make_partition('message', '2040-01-01')",
        "SELECT nextval('django_migrations_id_seq')",
    ],
)
def test_the_reader_can_change_nothing(reader: Any, statement: str) -> None:
    with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectNotInPrerequisiteState)):
        reader.execute(statement)


@pytest.fixture
def on_control(configuration: Conf) -> Iterator["psycopg.Connection[dict[str, Any]]"]:
    from psycopg.rows import dict_row

    with psycopg.connect(configuration.control_url, row_factory=dict_row) as connection:
        yield connection  # and what was written is taken back
        connection.rollback()


def test_the_control_database_shows_what_was_rolled_up(on_control: Any, namespace: str) -> None:
    noon = datetime.datetime(2026, 3, 2, 12, tzinfo=datetime.UTC)
    add_hour(on_control, namespace, "t", noon, messages=7, deliveries=8, wait_ms=[1, 2, 3])
    add_failure(on_control, namespace, "t", noon.date(), "no such <text>", 4, sample="no such 'x'", sample_id=17)
    on_control.execute("SET LOCAL ROLE mqueue_reader")
    (hour,) = look(on_control, "usage_hour", namespace)
    assert (hour["hour"], hour["topic"], hour["messages"], hour["deliveries"]) == (noon, "t", 7, 8)
    assert [hour[f"wait_p{n}_ms"] for n in (50, 95, 99)] == [1, 2, 3]
    assert hour["total_p99_ms"] is None
    (failure,) = look(on_control, "failures", namespace)
    assert (failure["error"], failure["deaths"], failure["sample_id"]) == ("no such <text>", 4, 17)


def test_the_reader_sees_two_views_of_the_control_database_and_no_table(on_control: Any) -> None:
    tables = on_control.execute(
        "SELECT c.oid::regclass::text AS name FROM pg_class c "
        "WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
    ).fetchall()
    assert len(tables) > 20
    on_control.execute("SET ROLE mqueue_reader")
    rows = on_control.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'mq'").fetchall()
    assert {row["table_name"] for row in rows} == CONTROL_VIEWS
    for table in tables:
        with pytest.raises(psycopg.errors.InsufficientPrivilege), on_control.transaction():
            on_control.execute(f"SELECT * FROM {table['name']} LIMIT 1")
