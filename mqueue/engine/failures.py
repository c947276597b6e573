"""Failed deliveries: what is locked, what `decide` says of it, and what is written, in one transaction."""

import datetime
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

import msgspec

from mqueue.core import metrics
from mqueue.core.messages import MAX_ERROR, Retry
from mqueue.core.retry import Failure, decide
from mqueue.engine.hot import Shard
from shards.partitions import with_partitions
from shards.pools import Database
from shards.sql import statement
from tenants.snapshot import TopicSettings

NACKED, LAPSED = 4, 5  # kinds of event
LAPSE_ERROR = "lease expired"
Settings = Callable[[int], TopicSettings]  # by the topic's number
Outcome = tuple[str, str, str | None]  # namespace, topic, why it is dead
_retry = msgspec.json.Decoder(Retry)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a consumer says with its nack."""

    error: str | None
    delay_ms: int | None
    dead: bool
    consumer: str


async def fail_leases(
    shard: Database, hot: Shard, settings: Settings, columns: dict[str, Any], wishes: Sequence[Wish]
) -> dict[int, datetime.datetime | None]:
    """For each position that named a live lease: when it is due again, or None if it is dead."""

    async def fail() -> tuple[dict[int, datetime.datetime | None], list[Any], list[Outcome]]:
        async with shard.connection() as connection, connection.transaction():
            rows = await (await connection.execute(statement("leased"), columns)).fetchall()
            seen: dict[int, tuple[Any, ...]] = {row[1]: row for row in reversed(rows)}  # an id named twice fails once
            verdicts = []
            for row in seen.values():
                wish = wishes[row[0]]
                failure = _failure(row, settings, delay_ms=wish.delay_ms, rejected=wish.dead)
                verdicts.append((row, failure, NACKED, _kept(wish.error), wish.consumer))
            decided = _decided(verdicts)
            waiting = await (await connection.execute(statement("fail"), decided)).fetchall() if verdicts else []
            due = dict(zip(decided["id"], decided["due"], strict=True))
            return {row[0]: due[row[1]] for row in seen.values()}, waiting, _outcomes(seen.values(), decided)

    decided, waiting, outcomes = await with_partitions(shard, (), fail)
    metrics.failed(outcomes)
    await hot.offer_rows(waiting)
    return decided


async def fail_overdue(shard: Database, hot: Shard, settings: Settings, limit: int, back_s: float | None = None) -> int:
    """End up to `limit` leases whose deadline has passed, in the last seconds or ever, and bury as many that wait past
    their ttl; how many."""
    return await _fail_overdue(shard, hot, settings, statement("overdue"), {"limit": limit, "back_s": back_s})


async def fail_one_overdue(shard: Database, hot: Shard, settings: Settings, number: int) -> None:
    """End the lease of one message, if its deadline has passed and nobody else is about to."""
    await _fail_overdue(shard, hot, settings, statement("overdue_one"), {"id": number})


async def _fail_overdue(
    shard: Database, hot: Shard, settings: Settings, overdue: LiteralString, parameters: dict[str, Any]
) -> int:
    topics: set[int] = set()

    async def fail() -> tuple[list[Any], list[Outcome]]:
        async with shard.connection() as connection, connection.transaction():
            await connection.execute(statement("be_quick"))
            rows = await (await connection.execute(overdue, parameters)).fetchall()
            topics.update(row[-1] for row in rows)
            verdicts = []
            for row in rows:
                held = row[0] is not None
                failure = _failure(row, settings, lapsed_at=row[0], waiting=not held)
                verdicts.append((row, failure, LAPSED if held else None, LAPSE_ERROR if held else None, None))
            decided = _decided(verdicts)
            waiting = await (await connection.execute(statement("fail"), decided)).fetchall() if verdicts else []
            return waiting, _outcomes(rows, decided)

    with hot.owing(topics):
        waiting, outcomes = await with_partitions(shard, (), fail)
    metrics.failed(outcomes)
    await hot.offer_rows(waiting)
    return len(outcomes)


def _failure(row: tuple[Any, ...], settings: Settings, **more: Any) -> Failure:
    """By what the message says itself, and by its topic's settings where it says nothing."""
    _, _, _, attempts, expiry, max_retries, retry, *_, topic = row
    topics = settings(topic)
    return Failure(
        attempt=attempts,
        max_retries=topics.max_retries if max_retries is None else max_retries,
        retry=_retry.decode(retry) if retry else topics.retry,
        expiry=expiry,
        **more,
    )


def _decided(verdicts: Sequence[tuple[Any, Failure, int | None, str | None, str | None]]) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {name: [] for name in ("id", "kind", "due", "reason", "error", "consumer")}
    for row, failure, kind, error, consumer in verdicts:
        verdict = decide(failure, row[7], random.random())  # noqa: S311  jitter is no secret
        due, reason = (verdict, None) if isinstance(verdict, datetime.datetime) else (None, verdict)
        for name, value in zip(columns, (row[1], kind, due, reason, error, consumer), strict=True):
            columns[name].append(value)
    return columns


def _outcomes(rows: Iterable[tuple[Any, ...]], decided: dict[str, Any]) -> list[Outcome]:
    return [(row[8], row[9], reason) for row, reason in zip(rows, decided["reason"], strict=True)]


def _kept(error: str | None) -> str | None:
    """The first part of what the consumer says went wrong; PostgreSQL's text holds no NUL."""
    if error is None:
        return None
    shown = error.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return shown.encode()[:MAX_ERROR].decode(errors="ignore")
