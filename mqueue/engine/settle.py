"""End leases, or move their deadline."""

import asyncio
import datetime
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

from mqueue.core import metrics, receipts
from mqueue.core.errors import MqueueError, NotLeased, SlotMoved, StaleReceipt
from mqueue.core.messages import Nack, Settle
from mqueue.engine.coalesce import Coalescer
from mqueue.engine.failures import NACKED, Wish, fail_leases
from mqueue.engine.hot import Hot
from mqueue.engine.topics import Topics
from shards.arrays import Int4s, Int8s, Texts, array
from shards.calls import change, fetch
from shards.cluster import Cluster
from shards.ids import slot_of_id
from shards.patience import Patience
from shards.pools import Database
from shards.routing import slot_of
from shards.sql import statement

FOREIGN = -1  # an epoch that no lease ever has: for a receipt that we did not issue for this message
HIGHEST_EPOCH = 2**31 - 1
ACKED, RELEASED = 8, 6  # kinds of event
FLIGHTS = 4
MOST = 1_000  # settles of one statement


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of one delivery."""

    state: str
    until: datetime.datetime | None = None  # extended: the new deadline; retrying: when it is due


ACK, RELEASE = Settled("acked"), Settled("released")
Outcome = Settled | MqueueError
Outcomes = dict[int, Outcome]  # by position
OnShard = Callable[[Database, "list[Row]"], Awaitable[Outcomes]]


class Row(NamedTuple):
    """One settle on its way to a shard."""

    id: int
    topic: int
    epoch: int | None
    consumer: str
    settle: Settle


class Settling:
    def __init__(self, cluster: Cluster, topics: Topics, hot: Hot, weights: Mapping[str, int]) -> None:
        self._cluster, self._topics, self._hot, self._weights = cluster, topics, hot, weights
        self.ack = partial(self._settle, self._shared("ack", self._ack, ACKED))
        self.nack = partial(self._settle, self._shared("nack", self._nack, NACKED))
        self.extend = partial(self._settle, self._shared("extend", self._extend, None))
        self.release = partial(self._settle, self._shared("release", self._release, RELEASED))

    async def _settle(
        self,
        calls: "Mapping[Database, Coalescer[list[Row], list[Outcome]]]",
        consumer: str,
        settles: Sequence[Settle],
        patience: Patience | None = None,
    ) -> list[Outcome]:
        if len(settles) == 1:  # nearly every request
            return [await self._settle_one(calls, consumer, settles[0])]
        outcomes: list[Outcome | None] = [None] * len(settles)
        parts: dict[Database, list[tuple[int, Row]]] = defaultdict(list)
        numbers = await self._topics.find_all({(settle.namespace, settle.topic) for settle in settles})
        for position, settle in enumerate(settles):
            number = numbers.get((settle.namespace, settle.topic))
            if number is None:
                continue
            try:
                shard = self._cluster.shard_of_topic(settle.namespace, settle.topic)
                parts[shard].append((position, Row(settle.id, number, _epoch(settle), consumer, settle)))
            except SlotMoved as error:
                outcomes[position] = error

        async def on(shard: Database, part: list[tuple[int, Row]]) -> None:
            found = await calls[shard].enter([row for _, row in part], len(part), settles[0].namespace)
            for (position, _), outcome in zip(part, found, strict=True):
                outcomes[position] = outcome

        await asyncio.gather(*(on(shard, part) for shard, part in parts.items()))
        if SlotMoved in set(map(type, outcomes)):
            await self._settle_again(calls, consumer, settles, outcomes, patience or Patience(self._cluster))
        return [outcome or NotLeased() for outcome in outcomes]  # None: its topic was never made

    async def _settle_again(
        self,
        calls: "Mapping[Database, Coalescer[list[Row], list[Outcome]]]",
        consumer: str,
        settles: Sequence[Settle],
        outcomes: list[Outcome | None],
        patience: Patience,
    ) -> None:
        """Those to which nothing was done, since slots move."""
        moved = {position: one for position, one in enumerate(outcomes) if isinstance(one, SlotMoved)}
        slots = {slot_of(settles[position].namespace, settles[position].topic) for position in moved}
        if await patience.outlasts(next(iter(moved.values())), slots):
            again = await self._settle(calls, consumer, [settles[position] for position in moved], patience)
            for position, outcome in zip(moved, again, strict=True):
                outcomes[position] = outcome

    async def _settle_one(
        self, calls: "Mapping[Database, Coalescer[list[Row], list[Outcome]]]", consumer: str, settle: Settle
    ) -> Outcome:
        number = await self._topics.find((settle.namespace, settle.topic))
        if number is None:
            return NotLeased()
        row = Row(settle.id, number, _epoch(settle), consumer, settle)
        patience: Patience | None = None
        while True:
            try:
                shard = self._cluster.shard_of_topic(settle.namespace, settle.topic)
                (outcome,) = await calls[shard].enter([row], 1, settle.namespace)
            except SlotMoved as error:
                outcome = error
            if not isinstance(outcome, SlotMoved):
                return outcome
            patience = patience or Patience(self._cluster)
            if not await patience.outlasts(outcome, (slot_of(settle.namespace, settle.topic),)):
                return outcome

    def _shared(
        self, name: str, verb: OnShard, kind: int | None
    ) -> "dict[Database, Coalescer[list[Row], list[Outcome]]]":
        """Requests that come while a statement is under way share the next one."""

        def calls_on(shard: Database) -> Coalescer[list[Row], list[Outcome]]:
            async def call(parts: Sequence[list[Row]]) -> list[list[Outcome]]:
                found = await self._settle_on(shard, [row for part in parts for row in part], verb, kind)
                ends = list(accumulate(map(len, parts)))
                return [found[end - len(part) : end] for end, part in zip(ends, parts, strict=True)]

            return Coalescer(call, most=MOST, flights=FLIGHTS, name=name, weights=self._weights)

        return {shard: calls_on(shard) for shard in self._cluster.shards}

    async def _settle_on(self, shard: Database, rows: list[Row], verb: OnShard, kind: int | None) -> list[Outcome]:
        try:
            with self._hot[shard].owing({row.topic for row in rows}):
                settled = await verb(shard, rows)
        except MqueueError as error:
            return [error] * len(rows)
        if left := [position for position in range(len(rows)) if position not in settled]:
            settled |= await _settled_before(shard, rows, left, kind)
        return [settled[position] for position in range(len(rows))]

    async def _ack(self, shard: Database, rows: list[Row]) -> Outcomes:
        found = await change(shard, statement("ack"), _columns(rows))
        metrics.ACKED.count(rows[row[0]].settle for row in found)
        metrics.END_TO_END_SECONDS.observe_each(row[1] for row in found)
        return dict.fromkeys([row[0] for row in found], ACK)

    async def _release(self, shard: Database, rows: list[Row]) -> Outcomes:
        found = await change(shard, statement("release"), _columns(rows))
        await self._hot[shard].offer_rows(row[1:] for row in found)
        return dict.fromkeys([row[0] for row in found], RELEASE)

    async def _extend(self, shard: Database, rows: list[Row]) -> Outcomes:
        wanted = [
            getattr(row.settle, "visibility_ms", None) or self._topics.settings(row.topic).visibility_ms for row in rows
        ]
        found = await change(shard, statement("extend"), _columns(rows) | {"visibility_ms": wanted})
        return {position: Settled("extended", until) for position, until in found}

    async def _nack(self, shard: Database, rows: list[Row]) -> Outcomes:
        wishes = [
            Wish(row.settle.error, row.settle.delay_ms, row.settle.dead, row.consumer)
            for row in rows
            if isinstance(row.settle, Nack)
        ]
        decided = await fail_leases(shard, self._hot[shard], self._topics.settings, _columns(rows), wishes)
        metrics.NACKED.count(rows[position].settle for position in decided)
        return {position: _nacked(due) for position, due in decided.items()}


async def _settled_before(shard: Database, rows: list[Row], left: list[int], kind: int | None) -> Outcomes:
    columns = _columns([rows[position] for position in left]) | {"position": left, "kind": kind}
    try:
        facts = await fetch(shard, statement("settled_before"), columns)
    except MqueueError as error:
        return dict.fromkeys(left, error)  # what is settled stays settled
    return {fact[0]: _verdict(fact, kind, rows[fact[0]]) for fact in facts}


def _verdict(fact: Any, kind: int | None, row: Row) -> Outcome:
    _, before, due, died, known, has_left = fact
    slot = slot_of_id(row.id)
    if has_left and slot == slot_of(row.settle.namespace, row.settle.topic):
        return SlotMoved(slots=frozenset({slot}))
    if before:
        return {ACKED: ACK, RELEASED: RELEASE}.get(kind or 0, _nacked(None if died else due))
    return StaleReceipt() if row.epoch is not None and known else NotLeased()


def _nacked(due: datetime.datetime | None) -> Settled:
    return Settled("retrying", due) if due else Settled("dead")


def _epoch(settle: Settle) -> int | None:
    if settle.receipt is None:
        return None
    named = receipts.unseal(settle.receipt)
    return named[1] if named and named[0] == settle.id and named[1] <= HIGHEST_EPOCH else FOREIGN


def _columns(rows: list[Row]) -> dict[str, Any]:
    return {
        "position": array(Int4s, range(len(rows))),
        "id": array(Int8s, [row.id for row in rows]),
        "topic": array(Int4s, [row.topic for row in rows]),
        "epoch": array(Int4s, [row.epoch for row in rows]),
        "consumer": array(Texts, [row.consumer for row in rows]),
    }
