"""Usage and failures say what happened, may be run again, and count what comes late."""

import datetime
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from django.db import connections
from psycopg import sql

from mqueue.core import redrive
from mqueue.core.conf import Conf, Lake
from mqueue.core.messages import DeadChoice, DeadPage, Dequeue, Nack, Settle
from mqueue.engine.engine import Engine
from pipeline.archive import archive
from pipeline.errors import NothingToDo
from pipeline.failures import MASKS, advice, failures
from pipeline.gc import gc
from pipeline.layout import LAYOUTS
from pipeline.models import Failure, File, Table, UsageHour
from pipeline.retain import retain
from pipeline.spark import Sessions
from pipeline.storage import Storage
from pipeline.usage import usage
from shards.resharding.copying import pipe
from tests.integration.messages import message, send
from tests.pipeline.past import day_before, grow_older, wait_until_complete

pytestmark = [pytest.mark.pipeline, pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")]
DAYS = 12
ERRORS = ("no user 17 at 'Rome' in 0xff", "no user 4 at 'Oslo' in 0x0a", "timeout")


async def a_day(conf: Conf, namespace: str, count: int) -> None:
    """Of `count` messages three die, of two errors; one is tried twice, and the rest are acked."""
    engine = Engine(conf)
    await engine.open()
    try:
        await send(engine, *(message(namespace, "t", "x" * 8, max_retries=0) for _ in ERRORS))
        for held, error in zip(await engine.dequeue("c", Dequeue(namespace, "t", limit=3)), ERRORS, strict=True):
            await engine.nack("c", [Nack(held.id, namespace, "t", held.receipt, error=error)])
        await send(engine, *(message(namespace, "t", "y") for _ in range(count - len(ERRORS))))
        (first,) = await engine.dequeue("c", Dequeue(namespace, "t"))
        await engine.nack("c", [Nack(first.id, namespace, "t", first.receipt, delay_ms=0)])
        held = await engine.dequeue("c", Dequeue(namespace, "t", limit=100))
        await engine.ack("c", [Settle(one.id, namespace, "t", one.receipt) for one in held])
    finally:
        await engine.close()
    wait_until_complete(conf)


def totals(namespace: str) -> dict[str, int]:
    rows = list(UsageHour.objects.filter(namespace=namespace))
    names = ("messages", "bytes", "deliveries", "retries", "acked", "dead")
    return {name: sum(getattr(row, name) for row in rows) for name in names}


TEN = {"messages": 10, "bytes": 3 * 10 + 7 * 3, "deliveries": 11, "retries": 1, "acked": 7, "dead": 3}


async def test_usage_is_counted_and_timed_wherever_the_rows_are(
    lake: Conf, namespace: str, sessions: Sessions, said: list[str]
) -> None:
    await a_day(lake, namespace, 10)
    grow_older(lake, namespace, DAYS)
    usage(lake, sessions, said.append)
    assert totals(namespace) == TEN
    times = {name: UsageHour.objects.filter(namespace=namespace).exclude(**{name: None}).first() for name in KINDS}
    for name, row in times.items():
        low, middle, high = getattr(row, name)
        assert 0 <= low <= middle <= high < 60_000
    archive(lake, sessions, said.append)
    usage(lake, sessions, said.append, everything=True)
    assert totals(namespace) == TEN
    retain(lake, said.append)
    usage(lake, sessions, said.append, everything=True)
    assert totals(namespace) == TEN
    assert rows_of_files(lake, "usage", namespace) == UsageHour.objects.filter(namespace=namespace).count()
    connections.close_all()  # of this test's own context: the pool has few


KINDS = ("wait_ms", "work_ms", "total_ms")


def rows_of_files(conf: Conf, kind: str, namespace: str) -> int:
    storage = Storage(conf.lake.url)
    files = [storage.read(table.path).to_pylist() for table in Table.objects.filter(kind=kind)]
    return sum(row.get("namespace") == namespace for rows in files for row in rows)


async def test_what_commits_late_is_counted_when_it_comes(
    lake: Conf, namespace: str, sessions: Sessions, said: list[str]
) -> None:
    """By id or by time it would be behind what was read already."""
    await a_day(lake, namespace, 10)
    number = (await topics_of(lake, namespace))["t"]
    with psycopg.connect(lake.shard_urls[0]) as late:
        late.execute(
            "INSERT INTO message (id, topic, day, payload_bytes, priority, is_json, payload) "
            "VALUES (1024, %s, (now() AT TIME ZONE 'UTC')::date, 0, 5, false, '')",
            [number],
        )
        usage(lake, sessions, said.append)
        assert totals(namespace)["messages"] in (0, 10)  # it holds back whoever writes after it
        late.commit()
    usage(lake, sessions, said.append)
    assert totals(namespace) == TEN | {"messages": 11}
    with psycopg.connect(lake.shard_urls[0], autocommit=True) as connection:
        connection.execute("DELETE FROM message WHERE id = 1024")
    connections.close_all()  # of this test's own context: the pool has few


async def topics_of(conf: Conf, namespace: str) -> dict[str, int]:
    found: dict[str, Any] = {}
    for url in conf.shard_urls:
        with psycopg.connect(url) as connection:
            rows = connection.execute("SELECT name, id FROM topic WHERE namespace = %s", [namespace])
            found |= dict(rows.fetchall())  # type: ignore[arg-type]
    return found


async def test_deaths_are_grouped_by_what_their_errors_share(
    lake: Conf, namespace: str, sessions: Sessions, said: list[str]
) -> None:
    await a_day(lake, namespace, 10)
    grow_older(lake, namespace, 3)
    failures(lake, sessions, said.append)
    found = {one.fingerprint: one for one in Failure.objects.filter(namespace=namespace)}
    assert {text: one.deaths for text, one in found.items()} == {"no user <n> at <text> in <hex>": 2, "timeout": 1}
    one = found["no user <n> at <text> in <hex>"]
    assert (one.reason, one.name, one.day) == ("max_retries", "t", day_before(3))
    assert one.sample in ERRORS[:2]
    assert one.first_at <= one.last_at < datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=2)
    told = "\n".join(said)
    assert f"      2  {namespace}/t  max_retries: no user <n> at <text> in <hex>" in told
    assert "66 % of its deaths" in told
    assert "3 wait" in told
    connections.close_all()  # of this test's own context: the pool has few


async def test_an_old_dead_letter_that_is_replayed_leaves_what_was_counted_of_its_day(
    lake: Conf, namespace: str, sessions: Sessions, said: list[str]
) -> None:
    """Its day has left the lake, and the letter would be all that is found of it."""
    await a_day(lake, namespace, 10)
    grow_older(lake, namespace, DAYS)
    archive(lake, sessions, said.append)
    usage(lake, sessions, said.append)
    failures(lake, sessions, said.append)
    retain(replace(lake, lake=Lake(lake.lake.url, 0, retention_days=5)), said.append)
    gc(lake, said.append)
    assert not File.objects.filter(partition__day=day_before(DAYS)).exists()
    for retention in (5, 0):  # the setting may be another by now
        await replay_one(lake, namespace)
        with_retention = replace(lake, lake=Lake(lake.lake.url, 0, retention_days=retention))
        usage(with_retention, sessions, said.append)
        failures(with_retention, sessions, said.append)
        usage(with_retention, sessions, said.append, everything=True)
        assert totals(namespace) == TEN
        assert sum(one.deaths for one in Failure.objects.filter(namespace=namespace)) == 3
    connections.close_all()  # of this test's own context: the pool has few


async def test_an_old_dead_letter_whose_day_is_in_the_lake_is_counted_once(
    lake: Conf, namespace: str, sessions: Sessions, said: list[str]
) -> None:
    await a_day(lake, namespace, 10)
    grow_older(lake, namespace, DAYS)
    archive(lake, sessions, said.append)
    usage(lake, sessions, said.append)
    retain(lake, said.append)
    await replay_one(lake, namespace)
    UsageHour.objects.filter(namespace=namespace).update(messages=0)  # the day is done anew
    usage(lake, sessions, said.append)
    assert totals(namespace) == TEN
    connections.close_all()  # of this test's own context: the pool has few


async def replay_one(conf: Conf, namespace: str) -> None:
    engine = Engine(conf)
    await engine.open()
    try:
        (letter, *_) = await engine.dead.page(DeadPage(namespace, "t"))
        assert await engine.dead.replay("c", DeadChoice(namespace, "t", id=letter.id)) == 1
    finally:
        await engine.close()
    wait_until_complete(conf)


async def test_what_slots_have_taken_along_to_another_shard_is_counted_once(
    lake: Conf, namespace: str, sessions: Sessions, said: list[str]
) -> None:
    """It is in the lake where it came from; and on its new shard, and then in the lake from there."""
    await a_day(lake, namespace, 10)
    grow_older(lake, namespace, DAYS)
    source, target = in_order_of_rows(lake, namespace)
    for parent in LAYOUTS:
        target.execute(f"DROP TABLE {parent}_{day_before(DAYS):%Y%m%d}")
    archive(lake, sessions, said.append)
    for table in ("topic", *LAYOUTS):
        if table in LAYOUTS:
            target.execute("SELECT make_partition(%s, %s)", [table, day_before(DAYS)])
        mine = sql.SQL("{} x WHERE {} IN (SELECT id FROM topic WHERE namespace = {})").format(
            sql.Identifier(table), sql.Identifier("id" if table == "topic" else "topic"), sql.Literal(namespace)
        )
        assert pipe(source, target, table, mine)
    wait_until_complete(lake)
    usage(lake, sessions, said.append)
    assert totals(namespace) == TEN
    archive(lake, sessions, said.append)
    usage(lake, sessions, said.append)
    failures(lake, sessions, said.append)
    assert totals(namespace) == TEN
    assert sum(one.deaths for one in Failure.objects.filter(namespace=namespace)) == 3
    target.execute("DELETE FROM topic WHERE namespace = %s", [namespace])
    for connection in (source, target):
        connection.close()
    connections.close_all()  # of this test's own context: the pool has few


def in_order_of_rows(conf: Conf, namespace: str) -> "list[psycopg.Connection[tuple[Any, ...]]]":
    """The shard that has them, and the other."""
    found = [psycopg.connect(url, autocommit=True) for url in conf.shard_urls]
    query = "SELECT count(*) FROM topic WHERE namespace = %s"
    return sorted(found, key=lambda one: one.execute(query, [namespace]).fetchall(), reverse=True)


def test_searches_know_every_mask_of_a_fingerprint() -> None:
    assert {mask for _, mask in MASKS} - {" "} == set(redrive.MASKS)


def test_advice_is_of_the_reason_and_only_where_something_waits() -> None:
    assert "none" in advice("max_retries", "n", "t", 0)
    assert "ttl" in advice("expired", "n", "t", 2)
    assert '"namespace": "n", "topic": "t"' in advice("rejected", "n", "t", 2)


def test_with_nothing_new_there_is_nothing_to_do(lake: Conf, sessions: Sessions, said: list[str]) -> None:
    usage(lake, sessions, said.append)
    with pytest.raises(NothingToDo):
        usage(lake, sessions, said.append)
