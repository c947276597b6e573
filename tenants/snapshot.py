"""What a process has to know of all tenants, as frozen values, and the reading of what changed since a version."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from mqueue.core.credentials import Key
from mqueue.core.messages import DEFAULT_MAX_RETRIES, DEFAULT_VISIBILITY_MS, Retry
from mqueue.core.tokens import FAR

VERSION = "SELECT version, reload FROM settings_version"
TOPICS = """
SELECT topic_id, visibility_ms, max_retries, retry_strategy, retry_base_ms, retry_max_ms, retry_jitter, retention_days,
       durability, paused, rate_capacity, rate_refill_per_s, tracing, deleted_at IS NOT NULL AS deleted
FROM topic_settings WHERE changed > %(since)s
"""
QUOTAS = """
SELECT n.name AS namespace, q.messages_per_minute, q.bytes_per_minute, q.max_stored, q.max_in_flight,
       q.max_topics, q.weight
FROM namespace_quota q JOIN namespace n ON n.id = q.namespace_id WHERE q.changed > %(since)s
"""
KEYS = """
SELECT k.kid, n.name AS namespace, k.kind, k.name, k.scopes, k.material,
       extract(epoch FROM k.expires_at)::float8 AS expires_at, k.revoked_at IS NOT NULL AS is_revoked
FROM namespace_key k JOIN namespace n ON n.id = k.namespace_id
WHERE k.changed > %(since)s AND (%(since)s > 0 OR k.revoked_at IS NULL)
"""


@dataclass(frozen=True, slots=True)
class Rate:
    """A token bucket of dequeues."""

    capacity: int
    refill_per_s: float


@dataclass(frozen=True, slots=True)
class TopicSettings:
    visibility_ms: int = DEFAULT_VISIBILITY_MS
    max_retries: int = DEFAULT_MAX_RETRIES
    retry: Retry = Retry()  # noqa: RUF009  frozen
    retention_days: int | None = None  # None: as the deployment's
    durability: str = "commit"
    paused: bool = False
    rate: Rate | None = None
    tracing: bool = True
    deleted: bool = False  # its number stays; the next message to it makes it again


@dataclass(frozen=True, slots=True)
class Quotas:
    """None is no limit, and the weight 1."""

    messages_per_minute: int | None = None
    bytes_per_minute: int | None = None
    max_stored: int | None = None
    max_in_flight: int | None = None
    max_topics: int | None = None
    weight: int | None = None

    @property
    def limits(self) -> bool:
        return replace(self, weight=None) != NO_QUOTAS


PLAIN = ("visibility_ms", "max_retries", "retention_days", "durability", "paused", "tracing", "deleted")
DEFAULTS = TopicSettings()
NO_QUOTAS = Quotas()


@dataclass(frozen=True, slots=True)
class Changes:
    """None stands for what has no record of its own any more."""

    version: int
    is_whole: bool  # not only what changed
    topics: Mapping[int, TopicSettings | None]
    quotas: Mapping[str, Quotas]
    keys: Mapping[str, Key | None]


async def changes_since(connection: AsyncConnection[Any], seen: int) -> Changes | None:
    """None where there are none: then it costs one row. The version is read first, so that nothing is missed."""
    row = await (await connection.execute(VERSION)).fetchone()
    assert row, "the migration made it"
    version, reload = row
    if version == seen:
        return None
    since = seen if reload <= seen < version else 0  # a version from before: the database was restored
    async with connection.cursor(row_factory=dict_row) as cursor:
        topics = await (await cursor.execute(TOPICS, {"since": since})).fetchall()
        quotas = await (await cursor.execute(QUOTAS, {"since": since})).fetchall()
        keys = await (await cursor.execute(KEYS, {"since": since})).fetchall()
    return Changes(
        version=version,
        is_whole=not since,
        topics={row.pop("topic_id"): _settings(row) for row in topics},
        quotas={row.pop("namespace"): Quotas(**row) for row in quotas},
        keys={row["kid"]: None if row.pop("is_revoked") else _key(row) for row in keys},
    )


def topic_settings(row: Mapping[str, Any]) -> TopicSettings:
    """A record, with the defaults where it has null."""
    given = {name: value for name, value in row.items() if value is not None}
    retry = {name: given[f"retry_{name}"] for name in Retry.__struct_fields__ if f"retry_{name}" in given}
    rate = {name: given[f"rate_{name}"] for name in ("capacity", "refill_per_s") if f"rate_{name}" in given}
    plain = {name: given[name] for name in PLAIN if name in given}
    return TopicSettings(**plain, retry=Retry(**retry), rate=Rate(**rate) if len(rate) > 1 else None)


def _settings(row: Mapping[str, Any]) -> TopicSettings | None:
    found = topic_settings(row)
    return None if found == DEFAULTS else found


def _key(row: Mapping[str, Any]) -> Key:
    expires_at = FAR if row["expires_at"] is None else row["expires_at"]
    return Key(**{**row, "scopes": frozenset(row["scopes"]), "expires_at": expires_at})
