"""What one topic gives to its consumers: refs from its hot head first, and the rest straight from PostgreSQL."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from msgspec import UNSET

from mqueue.core import receipts
from mqueue.core.errors import ShardUnavailable, SlotMoved
from mqueue.core.messages import (
    MAX_REQUEST,
    Delivered,
)
from mqueue.engine.claims import Ask, Claimed, Claims, Lease
from mqueue.engine.contents import content, headers
from mqueue.engine.failures import Settings
from mqueue.engine.hot import Shard
from mqueue.engine.line import Waiter
from mqueue.engine.throttle import Throttle
from mqueue.hot.refs import EVERYTHING, NOTHING, due_of, read
from mqueue.hot.sets import Head, Offer
from shards.calls import fetch
from shards.cluster import Cluster
from shards.patience import Patience
from shards.pools import Database
from shards.routing import slot_of
from shards.sql import statement
from tenants.registry import Name
from tenants.snapshot import TopicSettings

ROUNDS = 10


class Want:
    """What one consumer has been given so far, and what more it takes."""

    def __init__(self, waiter: Waiter, settings: TopicSettings) -> None:
        wanted = waiter.wanted
        visibility_ms = wanted.visibility_ms or settings.visibility_ms
        self.lease = Lease(visibility_ms, waiter.consumer, is_traced=settings.tracing)
        self.left, self.rows = wanted.limit, list[Claimed]()
        self._bytes = 0

    def in_order(self) -> list[Claimed]:
        return sorted(self.rows, key=lambda row: (row.priority, row.due, row.id)) if len(self.rows) > 1 else self.rows

    def takes(self, row: Claimed) -> bool:
        """An answer stops at 16 MiB of payload."""
        if self.rows and self._bytes + row.payload_bytes > MAX_REQUEST:
            self.left = 0
        if row.payload is None or not self.left:
            return False
        self.rows.append(row)
        self.left -= 1
        self._bytes += row.payload_bytes
        return True


class Home(NamedTuple):
    """Where a topic lives."""

    shard: Database
    claims: Claims
    hot: Shard


class Source:
    def __init__(
        self,
        name: Name,
        topic: int,
        cluster: Cluster,
        home: Callable[[Database], Home],
        *,
        settings: Settings,
        throttle: Throttle,
    ) -> None:
        self._settings, self._throttle = settings, throttle
        self._name, self._topic, self._cluster, self._find_home = name, topic, cluster, home
        self._slot = slot_of(*name)
        self._head = Head(is_hot=False)
        self._one_at_a_time = asyncio.Lock()
        self._version = -1  # nowhere yet

    async def claim(self, waiters: list[Waiter]) -> tuple[list[list[Delivered]], bool]:
        settings = self._settings(self._topic)
        if settings.paused:
            return [[] for _ in waiters], True
        wants = [Want(waiter, settings) for waiter in waiters]
        if self._throttle.is_off(settings):  # nearly every topic
            nothing_left = await self._claim(wants)
        else:
            nothing_left = await self._throttle.serve(waiters, wants, settings, partial(self._claim, wants))
        found = [[_delivered(self._name, row, settings) for row in want.in_order()] for want in wants]
        return found, nothing_left

    async def _claim(self, wants: list[Want]) -> bool:
        """Whether nothing more is due."""
        try:
            return await self._outlasting_moves(partial(self._claim_for, wants))
        except ShardUnavailable:
            if not any(want.rows for want in wants):
                raise
            return False  # what is leased already is handed out: nobody else would get it before its deadline

    async def _outlasting_moves(self, work: Callable[[], Awaitable[bool]]) -> bool:
        """Do it where the topic lives; again, where it moves meanwhile."""
        patience: Patience | None = None
        while True:
            try:
                self._go_home()
                return await work()
            except SlotMoved as error:
                patience = patience or Patience(self._cluster)
                if not await patience.outlasts(error, (self._slot,)):
                    raise

    def _go_home(self) -> None:
        slots = self._cluster.slots
        if self._version != slots.version or slots.held:
            self._shard, self._claims, self._hot = self._find_home(self._cluster.shard_of_slot(self._slot))
            self._version = slots.version

    async def next_due_in(self) -> float | None:
        if self._settings(self._topic).paused:
            return None  # nothing comes of it: whoever waits looks again in a while
        if wait_s := self._throttle.looks_again_in():
            return wait_s
        if self._head.is_hot:
            return self._hot.clock.until_s(self._head.next_due_us) if self._head.next_due_us else None
        ((next_due, now),) = await fetch(self._shard, statement("next_due"), {"topic": self._topic})
        return (next_due - now).total_seconds() if next_due else None

    async def give_back(self, found: list[Delivered]) -> None:
        leases = [receipts.unseal(one.receipt) or (0, 0) for one in found]

        async def release() -> bool:
            await self._claims.release(self._topic, leases)
            return True

        with contextlib.suppress(SlotMoved):  # then they run out by themselves
            await self._outlasting_moves(release)

    async def _claim_for(self, wants: list[Want]) -> bool:
        """Whether nothing more is due."""
        place = await self._claim_hot(wants)
        nothing_left = place == EVERYTHING
        for _ in range(ROUNDS):
            if nothing_left or not any(want.left for want in wants):
                break
            nothing_left = await self._claim_cold(wants, place)
        return nothing_left

    async def _claim_hot(self, wants: list[Want]) -> str:
        """The place before which nothing is left: the bound, if the head had fewer refs before it than were wanted."""
        for _ in range(ROUNDS):
            left = sum(want.left for want in wants)
            if not left:
                break
            self._head = head = await self._hot.pop(self._topic, left, self._name[0])
            all_taken = not head.refs or await self._claim_refs(wants, head.refs)
            if all_taken and len(head.refs) < left:
                return head.bound
        return NOTHING

    async def _claim_refs(self, wants: list[Want], texts: Sequence[str]) -> bool:
        """Whether everything that was claimed found its consumer."""
        open_wants = [want for want in wants for _ in range(want.left)]
        pairs = [(read(text), want) for text, want in zip(texts, open_wants, strict=False)]
        try:
            rows = await self._claims.refs([(ref, want.lease) for ref, want in pairs], self._name[0])
        except ShardUnavailable:
            await self._hot.offer([Offer(self._topic, 0, text) for text in texts])  # back to where they were
            raise
        self._hot.done(self._topic, texts)
        missed = [ref for (ref, _), row in zip(pairs, rows, strict=True) if row is None]
        if missed and (early := await self._claims.waiting_among(missed)):
            await self._hot.clock.measure()  # it runs ahead
            await self._hot.offer([Offer(self._topic, due_of(ref.text), ref.text) for ref in early])
        return await self._hand_out([(row, want) for row, (_, want) in zip(rows, pairs, strict=True) if row])

    async def _claim_cold(self, wants: list[Want], place: str) -> bool:
        """Whether nothing more is due."""
        open_wants = [want for want in wants for _ in range(want.left)]
        async with self._one_at_a_time:
            rows = await self._claims.head(Ask(self._topic, place, [want.lease for want in open_wants]), self._name[0])
        all_taken = await self._hand_out(list(zip(rows, open_wants, strict=False)))
        return all_taken and len(rows) < len(open_wants)

    async def _hand_out(self, pairs: list[tuple[Claimed, Want]]) -> bool:
        too_much = [(row.id, row.epoch) for row, want in pairs if not want.takes(row)]
        if too_much:
            await self._claims.release(self._topic, too_much)
        return not too_much


def _delivered(name: Name, row: Claimed, settings: TopicSettings) -> Delivered:
    return Delivered(
        id=row.id,
        namespace=name[0],
        topic=name[1],
        priority=row.priority,
        headers=headers(row.headers),
        traceparent=row.traceparent or UNSET,
        attempt=row.attempts,
        max_retries=settings.max_retries if row.max_retries is None else row.max_retries,
        enqueued_at=row.enqueued_at,
        deliver_after=row.deliver_after,
        lease_expires_at=row.until,
        receipt=receipts.seal(row.id, row.epoch),
        **content(row.is_json, row.payload or b""),
    )
