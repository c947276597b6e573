"""What `manage.py check` says of the configuration and of the servers behind it.

Checks of the configuration run before every command; those of the servers only in `manage.py check` itself, which
passes a list of databases.
"""

import asyncio
import importlib.util
import os
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import redis
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as Advice
from psycopg.conninfo import conninfo_to_dict

from mqueue.core.conf import DAY_MS, Conf, conf
from mqueue.hot.connection import connect
from mqueue.wal.folder import WalDir
from shards.databases import POOL

SHORTEST_SECRET = 32
OLDEST_POSTGRES = 15
OLDEST_REDIS, OLDEST_VALKEY = (7, 0), (7, 2)
PROCESSES_BESIDE_API = 4  # the daemons, the Celery worker and its tasks, the metrics
PATIENCE_S = 3


@register()
def configuration(app_configs: object, databases: object = None, **kwargs: Any) -> list[CheckMessage]:
    return list(configuration_problems(conf()))


@register(Tags.database)
def servers(app_configs: object, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    return [] if databases is None else list(server_problems(conf()))


def configuration_problems(conf: Conf) -> Iterator[CheckMessage]:
    pool, retention = conf.pool, conf.retention
    if len(conf.jwt_secret.encode()) < SHORTEST_SECRET:
        yield Advice(
            f"JWT_SECRET is shorter than {SHORTEST_SECRET} bytes: whoever guesses it may do everything.",
            hint="python -c 'import secrets; print(secrets.token_urlsafe(48))'",
            id="mqueue.W001",
        )
    if pool.min_size > pool.max_size:
        yield Error(
            f"MQUEUE_POOL_MIN ({pool.min_size}) is more than MQUEUE_POOL_MAX ({pool.max_size}).", id="mqueue.E002"
        )
    if pool.lock_timeout_ms > pool.statement_timeout_ms:
        yield Advice(
            f"MQUEUE_LOCK_TIMEOUT_MS ({pool.lock_timeout_ms}) is more than MQUEUE_STATEMENT_TIMEOUT_MS "
            f"({pool.statement_timeout_ms}): a lock that is held looks like a shard that is down.",
            id="mqueue.W003",
        )
    if retention.retention_days * DAY_MS < retention.dedupe_window_ms + DAY_MS:
        yield Error(
            f"MQUEUE_RETENTION_DAYS ({retention.retention_days}) has to be at least the dedupe window "
            f"({retention.dedupe_window_ms} ms) plus a day: a key must not outlive the message that it names.",
            hint="Raise MQUEUE_RETENTION_DAYS or lower MQUEUE_DEDUPE_WINDOW_MS.",
            id="mqueue.E004",
        )
    if conf.lake.is_on and importlib.util.find_spec("pyarrow") is None:
        yield Error(
            "LAKE_URL is set, and pyarrow is not installed: nothing is archived, and what was is not found.",
            hint="python launch/install.py pipeline",
            id="mqueue.E006",
        )
    urls = [*conf.shard_urls, conf.control_url]
    if len({_database_of(url) for url in urls}) < len(urls):
        yield Error(
            "Two of DATABASE_URLS and CONTROL_DATABASE_URL name the same database.",
            hint="Each shard, and the control database, is a database of its own; they may share a server.",
            id="mqueue.E005",
        )


def server_problems(conf: Conf) -> Iterator[CheckMessage]:
    yield from _database_problems(conf, "The control database", conf.control_url, None)
    for number, url in enumerate(conf.shard_urls):
        yield from _database_problems(conf, f"Shard {number}", url, number)
    yield from _redis_problems(conf)
    yield from wal_problems(conf)


def _database_of(url: str) -> tuple[Any, ...]:
    parts = conninfo_to_dict(url)
    return tuple(parts.get(name) for name in ("host", "hostaddr", "port", "dbname"))


def _database_problems(conf: Conf, name: str, url: str, number: int | None) -> Iterator[CheckMessage]:
    try:
        with psycopg.connect(url, connect_timeout=PATIENCE_S, autocommit=True) as connection:
            version = connection.info.server_version // 10_000
            if version < OLDEST_POSTGRES:
                yield Error(f"{name} is PostgreSQL {version}; {OLDEST_POSTGRES} or newer is needed.", id="mqueue.E011")
            yield from _schema_problems(connection, name, number)
            yield from _connection_problems(connection, conf, name)
    except psycopg.Error as error:
        hint = _how_to_start(conf.embedded.postgres)
        yield Error(f"{name} cannot be reached: {str(error).strip()}", hint=hint, id="mqueue.E010")


def _schema_problems(connection: "psycopg.Connection[Any]", name: str, number: int | None) -> Iterator[CheckMessage]:
    table = "slot_map" if number is None else "shard_identity"
    if connection.execute("SELECT to_regclass(%s)", [table]).fetchone() == (None,):
        yield Error(f"{name} has no schema yet.", hint="manage.py migrate_shards", id="mqueue.E012")
        return
    if number is None:
        return
    found = connection.execute("SELECT number FROM shard_identity").fetchone()
    if found and found[0] != number:
        yield Error(
            f"DATABASE_URLS[{number}] leads to shard {found[0]}.",
            hint="Put DATABASE_URLS back in its old order.",
            id="mqueue.E013",
        )


def _connection_problems(connection: "psycopg.Connection[Any]", conf: Conf, name: str) -> Iterator[CheckMessage]:
    row = connection.execute("SELECT current_setting('max_connections')::int").fetchone()
    limit = row[0] if row else 0
    wanted = (conf.api.workers + PROCESSES_BESIDE_API) * conf.pool.max_size + conf.api.workers * POOL
    if wanted > limit:
        yield Advice(
            f"{name} allows {limit} connections, and a node may open {wanted}: "
            f"MQUEUE_POOL_MAX {conf.pool.max_size} for {conf.api.workers} API workers and {PROCESSES_BESIDE_API} more.",
            hint="Lower MQUEUE_POOL_MAX, raise max_connections, or put a pooler in between.",
            id="mqueue.W014",
        )


def _redis_problems(conf: Conf) -> Iterator[CheckMessage]:
    try:
        server, policy = asyncio.run(_redis_facts(conf))
    except (redis.RedisError, OSError, ValueError) as error:
        yield Error(f"Redis cannot be reached: {error}", hint=_how_to_start(conf.embedded.redis), id="mqueue.E020")
        return
    kind, oldest = ("Valkey", OLDEST_VALKEY) if "valkey_version" in server else ("Redis", OLDEST_REDIS)
    version = str(server.get("valkey_version") or server["redis_version"])
    if tuple(int(part) for part in version.split(".")[:2]) < oldest:
        yield Error(f"{kind} is {version}; {oldest[0]}.{oldest[1]} or newer is needed.", id="mqueue.E021")
    if policy != "noeviction":
        yield Advice(
            f"{kind} evicts keys when its memory is full (maxmemory-policy {policy}): queues would be built again and "
            "again.",
            hint="maxmemory-policy noeviction",
            id="mqueue.W022",
        )


def wal_problems(conf: Conf) -> Iterator[CheckMessage]:
    """As far as this node's disk says."""
    wal = WalDir(conf.wal_dir)
    for path in wal.quarantined():
        yield Advice(
            f"A segment of the log of buffered messages was set aside: {path}.",
            hint="manage.py wal verify, then recover; then delete it.",
            id="mqueue.W030",
        )
    existing = next(path for path in (wal.path, *wal.path.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        yield Error(f"WAL_DIR ({wal.path}) cannot be written: buffered topics take nothing.", id="mqueue.E031")


async def _redis_facts(conf: Conf) -> tuple[dict[str, Any], str]:
    async with connect(conf.redis, timeout_s=PATIENCE_S) as client:
        server, memory = await client.info("server"), await client.info("memory")
    return server, memory.get("maxmemory_policy", "noeviction")


def _how_to_start(embedded: bool) -> str | None:
    return "The embedded server runs while `make run` does." if embedded else None
