"""Turn refs, or the head of a topic as PostgreSQL has it, into leases."""

import datetime
import logging
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, LiteralString, NamedTuple

from mqueue.core import metrics
from mqueue.core.errors import ShardUnavailable, SlotMoved
from mqueue.core.messages import MAX_REQUEST
from mqueue.engine.coalesce import AT_ONCE, Coalescer
from mqueue.engine.hot import Shard
from mqueue.hot.refs import Ref, place_of
from shards.arrays import Bools, Int4s, Int8s, Texts, Timestamps, array
from shards.calls import change, fetch
from shards.pools import Database
from shards.sql import statement

log = logging.getLogger(__name__)
FLIGHTS = 4
MOST = 1_000  # refs of one statement


class Lease(NamedTuple):
    """What a consumer asks of a claim."""

    visibility_ms: int
    consumer: str
    is_traced: bool


class Claimed(NamedTuple):
    """A row of `claim_refs` and `claim`."""

    position: int
    id: int
    attempts: int
    epoch: int
    until: datetime.datetime
    priority: int
    due: datetime.datetime
    is_json: bool
    payload_bytes: int
    payload: bytes | None  # None: it did not fit into the answer any more
    headers: str | None
    traceparent: str | None
    max_retries: int | None
    enqueued_at: datetime.datetime
    deliver_after: datetime.datetime | None


class Ask(NamedTuple):
    """The first due messages of a topic from a place on are wanted, one for each lease."""

    topic: int
    place: str
    leases: Sequence[Lease]


class Claims:
    """On one shard. Claims of several topics share a statement."""

    def __init__(self, shard: Database, hot: Shard, weights: Mapping[str, int]) -> None:
        self._shard, self._hot = shard, hot
        self._seconds = metrics.CLAIM_SECONDS.labels(shard.number)
        self._by_ref: Coalescer[list[tuple[Ref, Lease]], list[Claimed | None]] = Coalescer(
            self._claim_refs, most=MOST, flights=FLIGHTS, name="claim", weights=weights, turns=AT_ONCE
        )
        self._by_place: Coalescer[Ask, list[Claimed]] = Coalescer(
            self._claim_places, most=MOST, flights=FLIGHTS, name="claim_cold", weights=weights, turns=AT_ONCE
        )

    async def refs(self, wanted: list[tuple[Ref, Lease]], owner: str) -> list[Claimed | None]:
        """For each ref its lease, or None where its row is not what the ref says."""
        return await self._by_ref.submit(wanted, len(wanted), owner)

    async def head(self, ask: Ask, owner: str) -> list[Claimed]:
        """In order. Nobody may ask for a topic again before its answer is there."""
        return await self._by_place.submit(ask, len(ask.leases), owner)

    async def waiting_among(self, refs: Sequence[Ref]) -> list[Ref]:
        """Of refs that could not be claimed, those whose rows wait: they were not due yet by PostgreSQL's clock."""
        columns = {"id": [ref.id for ref in refs], "epoch": [ref.epoch for ref in refs]}
        found = {row[0] for row in await fetch(self._shard, statement("unclaimed"), columns)}
        return [ref for ref in refs if ref.id in found]

    async def release(self, topic: int, leases: Sequence[tuple[int, int]]) -> None:
        """Ids and epochs, without spending an attempt. Where that fails, the leases run out by themselves; where they
        have moved, SlotMoved says so."""
        columns = {
            "position": list(range(len(leases))),
            "id": [number for number, _ in leases],
            "topic": [topic] * len(leases),
            "epoch": [epoch for _, epoch in leases],
            "consumer": [None] * len(leases),
        }
        try:
            rows = await change(self._shard, statement("release"), columns)
        except SlotMoved:
            raise
        except ShardUnavailable:
            self._hot.owe([topic])  # perhaps it was done
            log.warning("%d messages that nobody took come again when their leases end", len(leases))
        else:
            await self._hot.offer_rows(row[1:] for row in rows)

    async def _claim_refs(self, parts: Sequence[list[tuple[Ref, Lease]]]) -> list[list[Claimed | None]]:
        pairs = [pair for part in parts for pair in part]
        columns = {
            "id": array(Int8s, [ref.id for ref, _ in pairs]),
            "epoch": array(Int4s, [ref.epoch for ref, _ in pairs]),
            "visibility_ms": array(Int4s, [lease.visibility_ms for _, lease in pairs]),
            "consumer": array(Texts, [lease.consumer for _, lease in pairs]),
            "traced": array(Bools, [None if lease.is_traced else False for _, lease in pairs]),
            "most": MAX_REQUEST,
        }
        found = await self._claim(statement("claim_refs"), columns)
        answers, position = [], 0
        for part in parts:
            answers.append([found.get(position + n + 1) for n in range(len(part))])
            position += len(part)
        return answers

    async def _claim_places(self, asks: Sequence[Ask]) -> list[list[Claimed]]:
        places = [place_of(ask.place) for ask in asks]
        counts = [len(ask.leases) for ask in asks]
        ends = list(accumulate(counts))
        leases = [lease for ask in asks for lease in ask.leases]
        columns = {
            "topic": array(Int4s, [ask.topic for ask in asks]),
            "priority": array(Int4s, [place["priority"] for place in places]),
            "due": array(Timestamps, [place["due"] for place in places]),
            "id": array(Int8s, [place["id"] for place in places]),
            "wanted": array(Int4s, counts),
            "start": array(Int4s, [end - count for end, count in zip(ends, counts, strict=True)]),
            "traced": array(Bools, [ask.leases[0].is_traced for ask in asks]),
            "visibility_ms": array(Int4s, [lease.visibility_ms for lease in leases]),
            "consumer": array(Texts, [lease.consumer for lease in leases]),
            "most": MAX_REQUEST,
        }
        found = await self._claim(statement("claim"), columns)
        numbers = (range(end - count + 1, end + 1) for end, count in zip(ends, counts, strict=True))
        return [[found[n] for n in part if n in found] for part in numbers]

    async def _claim(self, query: LiteralString, columns: dict[str, Any]) -> dict[int, Claimed]:
        """By the number of the lease, from 1 on."""
        rows = await metrics.timed(self._seconds, change(self._shard, query, columns))
        return {row[0]: Claimed(*row) for row in rows}
