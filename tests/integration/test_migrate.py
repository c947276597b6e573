"""Migrating: again, side by side, on missing databases, in the wrong order and under traffic."""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from launch.services import migrate_command
from mqueue.core.conf import ROOT
from mqueue.core.messages import Dequeue
from mqueue.engine.engine import Engine
from shards.routing import SLOTS
from tests.integration.messages import message
from tests.servers import Servers, conf_of, running, worker_number

MIGRATIONS = ROOT / "shards/store/migrations"


def migrate(environment: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        migrate_command(),
        env=dict(os.environ) | environment,
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def outcome(process: "subprocess.Popen[str]") -> tuple[int, str]:
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


@pytest.fixture
def missing(servers: Servers) -> Iterator[str]:
    """A prefix under which no database exists yet."""
    prefix = f"w{worker_number()}_new_{os.urandom(3).hex()}"
    yield prefix
    servers.drop(prefix)


@pytest.fixture
def servers() -> Servers:
    return running()


def schema_of(url: str) -> list[tuple[object, ...]]:
    """Every column, index, constraint, function and view, without the partitions that the calendar made."""
    with psycopg.connect(url) as connection:
        return connection.execute("""
            WITH mine AS (
                SELECT c.oid, n.nspname, c.relname, c.relkind
                FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname IN ('public', 'mq') AND NOT c.relispartition
            )
            SELECT 'column', nspname, relname, attname::text, format_type(atttypid, atttypmod), attnotnull::text,
                   coalesce(pg_get_expr(d.adbin, d.adrelid), '')
            FROM mine JOIN pg_attribute a ON a.attrelid = mine.oid AND attnum > 0 AND NOT attisdropped
            LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE relkind IN ('r', 'p', 'v')
            UNION ALL SELECT 'index', nspname, relname, pg_get_indexdef(oid), '', '', ''
            FROM mine WHERE relkind IN ('i', 'I')
            UNION ALL SELECT 'constraint', nspname, relname, conname::text, pg_get_constraintdef(c.oid), '', ''
            FROM mine JOIN pg_constraint c ON c.conrelid = mine.oid
            UNION ALL SELECT 'view', nspname, relname, pg_get_viewdef(oid), '', '', '' FROM mine WHERE relkind = 'v'
            UNION ALL SELECT 'function', pronamespace::regnamespace::text, proname::text, pg_get_functiondef(oid), '',
                   '', ''
            FROM pg_proc WHERE pronamespace::regnamespace::text IN ('public', 'mq')
            ORDER BY 1, 2, 3, 4, 5
        """).fetchall()


def test_missing_databases_are_made_and_a_second_run_changes_nothing(missing: str, servers: Servers) -> None:
    environment = servers.environment(missing, 0)
    code, output = outcome(migrate(environment))
    assert code == 0, output
    assert "created" in output
    urls = [environment["CONTROL_DATABASE_URL"], *environment["DATABASE_URLS"].split(",")]
    before = [schema_of(url) for url in urls]
    code, output = outcome(migrate(environment))
    assert code == 0, output
    assert "migrations to apply" not in output
    assert [schema_of(url) for url in urls] == before
    assert before[1] == before[2]
    assert len(before[1]) > 100
    with psycopg.connect(urls[1]) as connection:  # a clone does not carry the rights on the database itself
        connection.execute("SET ROLE mqueue_reader")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE TEMPORARY TABLE mine (n int)")


def test_several_at_once_take_turns(missing: str, servers: Servers) -> None:
    racing = [migrate(servers.environment(missing, 0)) for _ in range(3)]
    for code, output in [outcome(process) for process in racing]:
        assert code == 0, output


def test_shards_in_another_order_are_refused(fresh_databases: str, servers: Servers) -> None:
    environment = servers.environment(fresh_databases, 0)
    environment["DATABASE_URLS"] = ",".join(reversed(environment["DATABASE_URLS"].split(",")))
    code, output = outcome(migrate(environment))
    assert code != 0
    assert "DATABASE_URLS[0] names shard 1" in output


def test_a_control_database_of_another_deployment_is_refused(
    fresh_databases: str, missing: str, servers: Servers
) -> None:
    environment = servers.environment(fresh_databases, 0)
    environment["CONTROL_DATABASE_URL"] = servers.url(f"{missing}_control")
    code, output = outcome(migrate(environment))
    assert code != 0
    assert "of deployment" in output


def test_fewer_shards_than_the_slot_map_names_are_refused(fresh_databases: str, servers: Servers) -> None:
    environment = servers.environment(fresh_databases, 0)
    environment["DATABASE_URLS"] = environment["DATABASE_URLS"].split(",")[0]
    code, output = outcome(migrate(environment))
    assert code != 0
    assert "spreads messages over 2 shards" in output


def test_a_server_that_is_not_there_is_named(servers: Servers) -> None:
    environment = servers.environment("nowhere", 0) | {"DATABASE_URLS": "postgresql://127.0.0.1:1/a"}
    code, output = outcome(migrate(environment))
    assert code != 0
    assert "shard 0" in output
    assert "Traceback" not in output


def test_the_first_slot_map_spreads_evenly(fresh_databases: str) -> None:
    with psycopg.connect(conf_of(fresh_databases, 0).control_url) as connection:
        rows = connection.execute("SELECT version, owners FROM slot_map").fetchall()
    assert [row[0] for row in rows] == [1]
    owners = rows[0][1]
    assert (len(owners), owners.count(0), owners.count(1)) == (SLOTS, SLOTS // 2, SLOTS // 2)


async def test_traffic_flows_while_a_migration_runs(fresh_databases: str, servers: Servers) -> None:
    """The newest migrations are taken back and applied again, while messages come and go: none fails or is lost."""
    conf = conf_of(fresh_databases, 0)
    engine = Engine(conf)
    await engine.open()
    sent: list[int] = []
    stop = asyncio.Event()

    async def produce() -> None:
        while not stop.is_set():
            result = await engine.enqueue("p", [message(topic=f"t{n}") for n in range(4)])
            assert not result.error
            sent.extend(message_id for message_id in result.ids if message_id)

    producing = asyncio.create_task(produce())
    try:
        await asyncio.sleep(0.2)
        for url in conf.shard_urls:
            with psycopg.connect(url) as connection:
                connection.execute("DROP SCHEMA mq CASCADE")
                connection.execute("DELETE FROM django_migrations WHERE app = 'store' AND name > '0002'")
        code, output = await asyncio.to_thread(lambda: outcome(migrate(servers.environment(fresh_databases, 0))))
        assert code == 0, output
        since = len(list(MIGRATIONS.glob("0*.py"))) - 1
        assert f"shard 1: {since} migrations to apply" in output
        before = len(sent)
        await asyncio.sleep(0.2)
        assert len(sent) > before
    finally:
        stop.set()
        await producing
    received = set()
    for n in range(4):
        while found := await engine.dequeue("c", Dequeue("default", f"t{n}", limit=1000)):
            received |= {delivered.id for delivered in found}
    await engine.close()
    assert received == set(sent)


async def test_a_migration_that_needs_a_busy_table_waits_its_turn(fresh_databases: str, servers: Servers) -> None:
    """It gives up its place in the lock queue after half a second, so that nobody queues behind it for longer."""
    conf = conf_of(fresh_databases, 0)
    with psycopg.connect(conf.shard_urls[0]) as connection:
        connection.execute("DELETE FROM django_migrations WHERE app = 'store' AND name > '0002'")
        connection.execute("DROP SCHEMA mq CASCADE")
    with psycopg.connect(conf.shard_urls[0]) as holder:
        holder.execute("LOCK TABLE topic IN ACCESS EXCLUSIVE MODE")
        migrating = migrate(servers.environment(fresh_databases, 0))
        assert migrating.stdout
        while line := await asyncio.to_thread(migrating.stdout.readline):
            if "a table is in use; trying again (1 of 60)" in line:
                break
        assert line, "it ended, and did not wait"
    code, output = await asyncio.to_thread(outcome, migrating)
    assert code == 0, output


def test_a_migration_that_meets_a_writer_crosswise_tries_again(fresh_databases: str, servers: Servers) -> None:
    """It holds `event` and waits for `idempotency`, of a writer who then waits for `event`."""
    url = conf_of(fresh_databases, 0).shard_urls[0]
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM django_migrations WHERE app = 'store' AND name > '0002'")
        connection.execute("DROP SCHEMA mq CASCADE")
    with psycopg.connect(url) as writer:
        writer.execute("LOCK TABLE idempotency IN ROW EXCLUSIVE MODE")
        migrating = migrate(servers.environment(fresh_databases, 0))
        while not writer.execute(
            "SELECT FROM pg_locks WHERE relation = 'idempotency'::regclass AND NOT granted"
        ).fetchall():
            assert migrating.poll() is None
            time.sleep(0.02)
        writer.execute("SELECT FROM event LIMIT 1")
    code, output = outcome(migrating)
    assert code == 0, output
    assert "a table is in use; trying again (1 of 60)" in output


def test_the_reader_role_is_made_once_a_server(fresh_databases: str) -> None:
    with psycopg.connect(conf_of(fresh_databases, 0).shard_urls[1]) as connection:
        granted = connection.execute(
            sql.SQL("SELECT has_schema_privilege('mqueue_reader', 'mq', 'USAGE'), rolcanlogin FROM pg_roles ")
            + sql.SQL("WHERE rolname = 'mqueue_reader'")
        ).fetchone()
    assert granted == (True, False)
