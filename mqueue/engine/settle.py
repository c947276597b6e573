"""End leases."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from mqueue.core import receipts
from mqueue.core.errors import MqueueError, NotLeased, StaleReceipt
from mqueue.core.messages import Settle
from mqueue.engine.topics import Topics
from shards.cluster import Cluster
from shards.partitions import with_partitions
from shards.pools import Database
from shards.sql import statement

FOREIGN = -1  # an epoch that no lease ever has: for a receipt that we did not issue for this message
HIGHEST_EPOCH = 2**31 - 1
Outcome = MqueueError | None


async def ack(cluster: Cluster, topics: Topics, consumer: str, settles: Sequence[Settle]) -> list[Outcome]:
    """None for each that is settled, its error for each that is not, in order."""
    outcomes: list[Outcome] = [NotLeased() for _ in settles]
    parts: dict[Database, list[tuple[int, int, int, int | None]]] = defaultdict(list)
    numbers = await topics.find_all({(settle.namespace, settle.topic) for settle in settles})
    for position, settle in enumerate(settles):
        number = numbers.get((settle.namespace, settle.topic))
        if number is not None:
            shard = cluster.shard_of_topic(settle.namespace, settle.topic)
            parts[shard].append((position, settle.id, number, _epoch(settle)))

    async def settle_on(shard: Database, rows: list[tuple[int, int, int, int | None]]) -> None:
        try:
            settled, left = await _ack_on(shard, consumer, rows)
        except MqueueError as error:
            outcomes_of_all: dict[int, Outcome] = {row[0]: error for row in rows}
        else:
            outcomes_of_all = dict.fromkeys(settled) | left
        for position, outcome in outcomes_of_all.items():
            outcomes[position] = outcome

    await asyncio.gather(*(settle_on(shard, rows) for shard, rows in parts.items()))
    return outcomes


async def _ack_on(shard: Database, consumer: str, rows: list[Any]) -> tuple[set[int], dict[int, Outcome]]:
    async def delete() -> set[int]:
        async with shard.connection() as connection:
            cursor = await connection.execute(statement("ack"), _columns(rows) | {"consumer": consumer})
            return {row[0] for row in await cursor.fetchall()}

    settled = await with_partitions(shard, (), delete)
    left = [row for row in rows if row[0] not in settled]
    if not left:
        return settled, {}
    try:
        async with shard.connection() as connection:
            facts = await (await connection.execute(statement("settled_before"), _columns(left))).fetchall()
    except MqueueError as error:
        return settled, dict.fromkeys((row[0] for row in left), error)  # what is settled stays settled
    with_receipt = {row[0] for row in left if row[3] is not None}
    return settled, {position: _verdict(position in with_receipt, *fact) for position, *fact in facts}


def _verdict(with_receipt: bool, acked_before: bool, known: bool) -> Outcome:
    if acked_before:
        return None
    return StaleReceipt() if with_receipt and known else NotLeased()


def _epoch(settle: Settle) -> int | None:
    if settle.receipt is None:
        return None
    named = receipts.unseal(settle.receipt)
    return named[1] if named and named[0] == settle.id and named[1] <= HIGHEST_EPOCH else FOREIGN


def _columns(rows: list[tuple[int, int, int, int | None]]) -> dict[str, Any]:
    return {name: [row[n] for row in rows] for n, name in enumerate(("position", "id", "topic", "epoch"))}
