"""End leases, or move their deadline."""

import asyncio
import datetime
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, TypeVar

from mqueue.core import receipts
from mqueue.core.errors import MqueueError, NotLeased, StaleReceipt
from mqueue.core.messages import DEFAULT_VISIBILITY_MS, Extend, Nack, Settle
from mqueue.engine.failures import Wish, fail_leases
from mqueue.engine.hot import Hot
from mqueue.engine.topics import Topics
from shards.cluster import Cluster
from shards.partitions import with_partitions
from shards.pools import Database
from shards.sql import statement

FOREIGN = -1  # an epoch that no lease ever has: for a receipt that we did not issue for this message
HIGHEST_EPOCH = 2**31 - 1
ACKED, NACKED, RELEASED = 8, 4, 6  # kinds of event


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of one delivery."""

    state: str
    until: datetime.datetime | None = None  # extended: the new deadline; retrying: when it is due


Outcome = Settled | MqueueError
Row = tuple[int, int, int, int | None]  # position, id, topic, epoch
Outcomes = dict[int, Outcome]
S = TypeVar("S", bound=Settle)
OnShard = Callable[[Database, list[Row]], Awaitable[Outcomes]]


class Settling:
    def __init__(self, cluster: Cluster, topics: Topics, hot: Hot) -> None:
        self._cluster, self._topics, self._hot = cluster, topics, hot

    async def ack(self, consumer: str, settles: Sequence[Settle]) -> list[Outcome]:
        async def on(shard: Database, rows: list[Row]) -> Outcomes:
            found = await _execute(shard, statement("ack"), _columns(rows) | {"consumer": [consumer] * len(rows)})
            return {row[0]: Settled("acked") for row in found}

        return await self._settle(settles, on, ACKED)

    async def release(self, consumer: str, settles: Sequence[Settle]) -> list[Outcome]:
        async def on(shard: Database, rows: list[Row]) -> Outcomes:
            found = await _execute(shard, statement("release"), _columns(rows) | {"consumer": [consumer] * len(rows)})
            await self._hot[shard].offer_rows(row[1:] for row in found)
            return {row[0]: Settled("released") for row in found}

        return await self._settle(settles, on, RELEASED)

    async def extend(self, consumer: str, settles: Sequence[Extend]) -> list[Outcome]:
        async def on(shard: Database, rows: list[Row]) -> Outcomes:
            wanted = [settles[row[0]].visibility_ms or DEFAULT_VISIBILITY_MS for row in rows]
            found = await _execute(shard, statement("extend"), _columns(rows) | {"visibility_ms": wanted})
            return {position: Settled("extended", until) for position, until in found}

        return await self._settle(settles, on, None)

    async def nack(self, consumer: str, settles: Sequence[Nack]) -> list[Outcome]:
        wishes = {n: Wish(nack.error, nack.delay_ms, nack.dead, consumer) for n, nack in enumerate(settles)}

        async def on(shard: Database, rows: list[Row]) -> Outcomes:
            decided = await fail_leases(shard, self._hot[shard], _columns(rows), wishes)
            return {position: _nacked(due) for position, due in decided.items()}

        return await self._settle(settles, on, NACKED)

    async def _settle(self, settles: Sequence[Settle], on: OnShard, kind: int | None) -> list[Outcome]:
        outcomes: list[Outcome] = [NotLeased() for _ in settles]
        parts: dict[Database, list[Row]] = defaultdict(list)
        numbers = await self._topics.find_all({(settle.namespace, settle.topic) for settle in settles})
        for position, settle in enumerate(settles):
            number = numbers.get((settle.namespace, settle.topic))
            if number is not None:
                shard = self._cluster.shard_of_topic(settle.namespace, settle.topic)
                parts[shard].append((position, settle.id, number, _epoch(settle)))

        async def settle_on(shard: Database, rows: list[Row]) -> None:
            try:
                with self._hot[shard].owing({row[2] for row in rows}):
                    settled: Mapping[int, Outcome] = await on(shard, rows)
            except MqueueError as error:
                settled = {row[0]: error for row in rows}
            for position, outcome in settled.items():
                outcomes[position] = outcome
            if left := [row for row in rows if row[0] not in settled]:
                for position, outcome in (await _settled_before(shard, left, kind)).items():
                    outcomes[position] = outcome

        await asyncio.gather(*(settle_on(shard, rows) for shard, rows in parts.items()))
        return outcomes


async def _execute(shard: Database, query: LiteralString, parameters: dict[str, Any]) -> list[Any]:
    async def execute() -> list[Any]:
        async with shard.connection() as connection:
            return await (await connection.execute(query, parameters)).fetchall()

    return await with_partitions(shard, (), execute)


async def _settled_before(shard: Database, rows: list[Row], kind: int | None) -> Outcomes:
    try:
        facts = await _execute(shard, statement("settled_before"), _columns(rows) | {"kind": kind})
    except MqueueError as error:
        return dict.fromkeys((row[0] for row in rows), error)  # what is settled stays settled
    with_receipt = {row[0] for row in rows if row[3] is not None}
    return {fact[0]: _verdict(fact, kind, with_receipt=fact[0] in with_receipt) for fact in facts}


def _verdict(fact: Any, kind: int | None, *, with_receipt: bool) -> Outcome:
    _, before, due, died, known = fact
    if before:
        return {ACKED: Settled("acked"), RELEASED: Settled("released")}.get(kind or 0, _nacked(None if died else due))
    return StaleReceipt() if with_receipt and known else NotLeased()


def _nacked(due: datetime.datetime | None) -> Settled:
    return Settled("retrying", due) if due else Settled("dead")


def _epoch(settle: Settle) -> int | None:
    if settle.receipt is None:
        return None
    named = receipts.unseal(settle.receipt)
    return named[1] if named and named[0] == settle.id and named[1] <= HIGHEST_EPOCH else FOREIGN


def _columns(rows: list[Row]) -> dict[str, Any]:
    return {name: [row[n] for row in rows] for n, name in enumerate(("position", "id", "topic", "epoch"))}
