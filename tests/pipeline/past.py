"""A past for a shard: messages go through the engine as ever, and then their rows are made older."""

import datetime
import time
from typing import Any

import psycopg

from mqueue.core.conf import Conf
from mqueue.core.messages import Dequeue, Message, Retry, Settle
from mqueue.engine.engine import Engine
from shards.sql import statement
from tests.integration.messages import message, send

OF_NAMESPACE = "topic IN (SELECT id FROM topic WHERE namespace = %(namespace)s)"
OLDER = [
    "UPDATE message SET day = day - %(days)s, enqueued_at = enqueued_at - %(days)s * interval '1 day' WHERE ",
    "UPDATE event SET at = at - %(days)s * interval '1 day' WHERE ",
    "UPDATE delivery SET day = day - %(days)s WHERE ",
    (
        "UPDATE dead_letter SET day = day - %(days)s, enqueued_at = enqueued_at - %(days)s * interval '1 day', "
        "died_at = died_at - %(days)s * interval '1 day' WHERE "
    ),
]


def day_before(days: int) -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date() - datetime.timedelta(days)


def grow_older(conf: Conf, namespace: str, days: int) -> None:
    for url in conf.shard_urls:
        with psycopg.connect(url) as connection:
            for parent in ("message", "event"):
                for late in (0, 1):  # midnight may have passed meanwhile
                    connection.execute("SELECT make_partition(%s, %s)", [parent, day_before(days - late)])
            for older in OLDER:
                connection.execute(older + OF_NAMESPACE, {"days": days, "namespace": namespace})  # type: ignore[arg-type]
    wait_until_complete(conf)


def drop_partitions(conf: Conf, least: int = 2) -> None:
    """And the deliveries of these days, which another test's days would be kept for."""
    for url in conf.shard_urls:
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT parent, day FROM log_partitions() WHERE day <= %s", [day_before(least)])
            for parent, day in found.fetchall():
                connection.execute(f"DROP TABLE {parent}_{day:%Y%m%d}")  # type: ignore[arg-type]
            if connection.execute("DELETE FROM delivery WHERE day <= %s", [day_before(least)]).rowcount:
                connection.execute(statement("recount"))


def forget_deliveries(conf: Conf, namespace: str) -> None:
    for url in conf.shard_urls:
        with psycopg.connect(url) as connection:
            connection.execute("DELETE FROM delivery WHERE " + OF_NAMESPACE, {"namespace": namespace})
            connection.execute(statement("recount"))


def of_every_kind(namespace: str) -> list[Message]:
    """What a column may hold."""
    plain = [message(namespace, f"t{n % 5}", {"n": n, "text": "ü€😀"}, priority=n % 256) for n in range(40)]
    keyed = [message(namespace, "keyed", n, idempotency_key=f"schlüssel {n}", ttl_ms=10**9) for n in range(5)]
    odd = [
        message(namespace, "odd", None, headers={"a": "b", "ключ": "\u2028"}, traceparent=f"00-{1:032x}-{1:016x}-01"),
        message(namespace, "odd", "", retry=Retry(strategy="linear", base_ms=5), max_retries=0),
        Message(namespace, "odd", payload=bytes(range(256)) * 3),
        Message(namespace, "odd", payload=b""),
    ]
    return plain + keyed + odd


async def settle_some(conf: Conf, namespace: str, topics: int = 5) -> list[int]:
    """Send one of every kind; ack what `t0` … hold, cancel one, let one die and delete it. The ids of what was sent."""
    engine = Engine(conf)
    await engine.open()
    try:
        ids = await send(engine, *of_every_kind(namespace))
        for number in range(topics):
            held = await engine.dequeue("ünit", Dequeue(namespace, f"t{number}", limit=100))
            await engine.ack("ünit", [Settle(one.id, namespace, f"t{number}", one.receipt) for one in held])
        return ids
    finally:
        await engine.close()


async def settle_all(conf: Conf, namespace: str) -> None:
    engine = Engine(conf)
    await engine.open()
    try:
        for topic in ("keyed", "odd"):
            held = await engine.dequeue("c", Dequeue(namespace, topic, limit=100))
            await engine.ack("c", [Settle(one.id, namespace, topic, one.receipt) for one in held])
    finally:
        await engine.close()


def wait_until_complete(conf: Conf) -> None:
    """Until whoever reads below the horizon sees all that is committed by now: a transaction of any database of the
    server, such as another test's, may hold it back."""
    for url in conf.shard_urls:
        with psycopg.connect(url, autocommit=True) as connection:
            until = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchone()
            assert until
            while (row := connection.execute(statement("horizon")).fetchone()) and row[0] < until[0]:
                time.sleep(0.02)


def rows_of(conf: Conf, parent: str, namespace: str) -> list[dict[str, Any]]:
    """All shards' rows, as Arrow would show them."""
    found: list[dict[str, Any]] = []
    for url in conf.shard_urls:
        with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as connection:
            connection.execute("SET timezone = 'UTC'")
            rows = connection.execute(
                f"SELECT t.namespace, t.name, l.* FROM {parent} l JOIN topic t ON t.id = l.topic "  # type: ignore[arg-type]
                "WHERE t.namespace = %s",
                [namespace],
            )
            found += rows.fetchall()
    return found
