"""Add messages: keys first, then one commit a shard, and an id for each message that is there."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mqueue.core import metrics
from mqueue.core.errors import MqueueError, ShardUnavailable, SlotMoved, Undecided
from mqueue.core.messages import Message
from mqueue.engine.buffering import Buffering
from mqueue.engine.hot import Hot
from mqueue.engine.inserts import Inserts, row_of
from mqueue.engine.keys import Claim, Key, Keys
from mqueue.engine.records import Record, record_of
from mqueue.engine.topics import Topics
from mqueue.hot.sets import TOLD_BEFORE
from shards.arrays import Int8s, array
from shards.calls import fetch
from shards.cluster import Cluster
from shards.ids import slot_of_id
from shards.patience import Patience
from shards.pools import Database
from shards.routing import SLOTS, slot_of, slot_of_key
from shards.sql import statement
from tenants.registry import Name

ROUNDS = 20  # each is one request that went ahead of this one
BUFFERED = "buffered"


@dataclass(slots=True)
class Enqueued:
    """`ids` in the order of the request, null where the message was not added; `in_doubt` and `there` (what was there
    already) name indexes."""

    ids: list[int | None]
    there: list[int] = field(default_factory=list)
    in_doubt: list[int] = field(default_factory=list)
    buffered: bool = False  # some of them were taken, and are committed later
    logged: dict[Database, list[int]] = field(default_factory=dict)  # the indexes of those, and of what may have been
    error: MqueueError | None = None

    @property
    def duplicates(self) -> int:
        return len(self.there)


class Enqueuing:
    def __init__(  # noqa: PLR0917
        self,
        cluster: Cluster,
        topics: Topics,
        hot: Hot,
        window_ms: int,
        buffering: Buffering,
        weights: Mapping[str, int],
    ) -> None:
        self._cluster, self._topics = cluster, topics
        self._hot, self._buffering = hot, buffering
        self._keys = Keys(cluster, window_ms)
        self._inserts = {shard: Inserts(shard, hot[shard], window_ms, weights) for shard in cluster.shards}

    async def enqueue(self, producer: str, messages: Sequence[Message]) -> Enqueued:
        names = {(message.namespace, message.topic) for message in messages}
        numbers = self._topics.all_live(names)
        if numbers is None:
            if repeated := await self._adds_nothing(messages):
                return repeated  # and makes no topic
            numbers = await self._topics.find_or_make(names)
        first = await self._cluster.ids.take(len(messages))
        ids = [
            (first + index) * SLOTS + slot_of(message.namespace, message.topic)
            for index, message in enumerate(messages)
        ]
        request = _Request(producer, messages, numbers, ids)
        indexes: Sequence[int] = range(len(messages))
        if any(self._topics.settings(number).durability == BUFFERED for number in numbers.values()):
            indexes = await self._buffer(request)
        try:
            if any(messages[index].idempotency_key is not None for index in indexes):
                await self._with_keys(request, indexes)
            elif indexes:
                await self._add(request, indexes)
        except ShardUnavailable as error:
            request.result.error = error  # what was logged or committed before is not taken back
        request.result.in_doubt.sort()
        return request.result

    async def _adds_nothing(self, messages: Sequence[Message]) -> Enqueued | None:
        try:
            return await self.repeated(messages)
        except ShardUnavailable:
            return None  # whoever takes the keys will say so

    async def repeated(self, messages: Sequence[Message]) -> Enqueued | None:
        """The answer, if each of them repeats a key whose message is there: that adds nothing, and needs no room."""
        keys = [(message.namespace, key) for message in messages if (key := message.idempotency_key) is not None]
        if len(keys) < len(messages):
            return None
        found = await self._keys.named(keys)
        if not found.keys() >= set(keys):
            return None
        await self._offer_again({c.id: c.silent_topic for c in found.values() if c.silent_topic is not None})
        return Enqueued([found[key].id for key in keys], there=list(range(len(keys))))

    async def _buffer(self, request: "_Request") -> list[int]:
        """Those that have to be committed: a key is decided by a commit, whatever its topic."""
        patience, slots = Patience(self._cluster), frozenset(map(slot_of_id, request.ids))
        while True:
            try:
                parts, rest = self._to_buffer(request)
            except SlotMoved as moved:
                if not await patience.outlasts(moved, slots):
                    raise
                continue
            going = (slot_of_id(request.ids[index]) for part in parts.values() for index in part)
            if not (draining := self._buffering.draining(going)):
                break
            await asyncio.wait([draining], timeout=patience.left_s)
            if not draining.done():
                raise SlotMoved(slots=slots)
        records = {
            shard: [request.record_of(index, self._hot[shard].clock.latest_us()) for index in part]
            for shard, part in parts.items()
        }
        for shard, error in (await self._buffering.take(records)).items():
            for index in parts[shard]:
                request.buffered(index, error)
            if error is None or isinstance(error, Undecided):
                request.result.logged[shard] = parts[shard]
            if error is None:
                metrics.BUFFERED.count(request.messages[index] for index in parts[shard])
        return rest

    def _to_buffer(self, request: "_Request") -> tuple[dict[Database, list[int]], list[int]]:
        """By shard; and the rest."""
        parts: dict[Database, list[int]] = defaultdict(list)
        rest = []
        for index, message in enumerate(request.messages):
            is_buffered = self._topics.settings(request.topic_of(index)).durability == BUFFERED
            if is_buffered and message.idempotency_key is None:
                parts[self._cluster.shard_of_topic(message.namespace, message.topic)].append(index)
            else:
                rest.append(index)
        return parts, rest

    async def _with_keys(self, request: "_Request", indexes: Sequence[int]) -> None:
        repeated = request.repeated()
        wanted = [index for index in indexes if index not in repeated]
        request.version, request.beside = self._cluster.slots.version, self._beside(request, wanted)
        for _ in range(ROUNDS):
            there, fenced = await self._take_and_add(request, wanted)
            await self._renew_ids(request, fenced)
            wanted = sorted(there + fenced)
            request.beside = set()
            if not wanted:
                break
        else:
            for index in wanted:
                request.failed(index, ShardUnavailable("Too many requests race for one idempotency key"))
        for index, meant in repeated.items():
            request.repeats(index, meant)

    def _beside(self, request: "_Request", wanted: Sequence[int]) -> set[int]:
        """Those whose key lies on the shard of their topic, so that one statement takes the one and adds the other."""
        owners, shards = self._cluster.slots.owners, len(self._cluster.shards)
        homes = {name: owners[slot_of(*name)] for name in request.numbers}
        found = set()
        for index in wanted:
            message = request.messages[index]
            if message.idempotency_key is not None:
                home = homes[message.namespace, message.topic]
                if home < shards and owners[slot_of_key(message.namespace, message.idempotency_key)] == home:
                    found.add(index)
        return found

    async def _take_and_add(self, request: "_Request", wanted: list[int]) -> tuple[list[int], list[int]]:
        """The indexes of those whose key was not to be had beside them, and of those whose key went to another topic
        meanwhile: these need a new id."""
        apart = [i for i in wanted if i not in request.beside]
        claims = {i: Claim(key, request.ids[i], request.topic_of(i)) for i in apart if (key := request.key_of(i))}
        await self._keys.take(claims.values())
        await self._offer_again({c.id: c.silent_topic for c in claims.values() if c.silent_topic is not None})
        for index, claim in claims.items():
            request.ids[index] = claim.id
            if claim.error:
                request.failed(index, claim.error)
            elif claim.is_there:
                request.is_there(index)
        to_add = [i for i in wanted if i not in claims or not (claims[i].error or claims[i].is_there)]
        not_added = await self._add(request, to_add)
        fenced = await self._fenced(request, [i for i in not_added if i not in request.beside])
        await self._keys.confirm(claims[i] for i in claims if request.is_sure(i) and not claims[i].is_there)
        return [i for i in not_added if i in request.beside], fenced

    async def _fenced(self, request: "_Request", not_added: list[int]) -> list[int]:
        """Of those that somebody else's row kept out: the message is there, unless that row is a fence."""
        fenced: list[int] = []
        for index in not_added:
            shard = self._cluster.reader_of_id(request.ids[index])
            try:
                if await self._keys.fenced_among(shard, [request.ids[index]]):
                    fenced.append(index)
                else:
                    await self._offer_again({request.ids[index]: request.topic_of(index)})
                    request.is_there(index)
            except ShardUnavailable as error:
                request.failed(index, error)
        return fenced

    async def _offer_again(self, topics: Mapping[int, int]) -> None:
        """By id: before we say that messages are there which somebody else has added, and perhaps not offered yet."""
        parts: dict[Database, list[int]] = defaultdict(list)
        for number in topics:
            parts[self._cluster.reader_of_id(number)].append(number)
        for shard, part in parts.items():
            try:
                rows = await fetch(shard, statement("waiting"), {"ids": array(Int8s, part)})
            except ShardUnavailable:
                await self._hot[shard].cool({topics[number] for number in part})
            else:
                await self._hot[shard].offer_rows(rows, if_due=TOLD_BEFORE)

    async def _renew_ids(self, request: "_Request", indexes: list[int]) -> None:
        first = await self._cluster.ids.take(len(indexes)) if indexes else 0
        for offset, index in enumerate(indexes):
            message = request.messages[index]
            request.ids[index] = (first + offset) * SLOTS + slot_of(message.namespace, message.topic)

    async def _add(self, request: "_Request", indexes: Sequence[int], patience: Patience | None = None) -> list[int]:
        """The indexes of keyed messages that were not added, since a row of their id was there."""
        parts: dict[Database, list[int]] = defaultdict(list)
        held: list[int] = []
        for index in indexes:
            message = request.messages[index]
            try:
                parts[self._cluster.shard_of_topic(message.namespace, message.topic)].append(index)
            except SlotMoved as moved:
                held.append(index)
                error = moved
        if len(parts) == 1 and not held:  # nearly every request
            ((shard, part),) = parts.items()
            return await self._add_on(shard, request, part, patience)
        adding = [self._add_on(shard, request, part, patience) for shard, part in parts.items()]
        if held:
            adding.append(self._add_later(request, held, error, patience))
        return [index for found in await asyncio.gather(*adding) for index in found]

    async def _add_later(
        self, request: "_Request", indexes: list[int], error: SlotMoved, patience: Patience | None
    ) -> list[int]:
        """Nothing of them was added, since slots move: again, when these have arrived."""
        patience = patience or Patience(self._cluster)
        if await patience.outlasts(error, (slot_of_id(request.ids[index]) for index in indexes)):
            return await self._add(request, indexes, patience)
        for index in indexes:
            request.failed(index, error)
        return []

    async def _add_on(
        self, shard: Database, request: "_Request", part: list[int], patience: Patience | None
    ) -> list[int]:
        if not request.beside or request.version == self._cluster.slots.version:
            return await self._add_whole(shard, request, part, patience)
        strayed = [i for i in part if i in request.beside]  # perhaps: a slot has moved since the keys were looked at
        apart = [i for i in part if i not in request.beside]
        return strayed + (await self._add_whole(shard, request, apart, patience) if apart else [])

    async def _add_whole(
        self, shard: Database, request: "_Request", part: list[int], patience: Patience | None
    ) -> list[int]:
        try:
            used = {(request.messages[i].namespace, request.messages[i].topic) for i in part}
            await self._topics.note_on(shard, {name: request.numbers[name] for name in used})
            committed = await self._inserts[shard].add([request.row_of(index) for index in part], request.owner)
        except SlotMoved as error:  # the key's or the topic's: they may part
            apart = [i for i in part if i not in request.beside]
            beside = [i for i in part if i in request.beside]
            return beside + (await self._add_later(request, apart, error, patience) if apart else [])
        except Undecided as error:
            for index in part:
                request.in_doubt(index, error)
            return []
        except ShardUnavailable as error:
            for index in part:
                request.failed(index, error)
            return []
        not_added = []
        for index in part:
            if request.messages[index].idempotency_key is None or request.ids[index] in committed.keyed:
                request.added(index)
            else:
                not_added.append(index)
        metrics.ENQUEUED.count(request.messages[i] for i in part if request.result.ids[i] is not None)
        return not_added


class _Request:
    """One request on its way, and what is known of each of its messages."""

    def __init__(self, producer: str, messages: Sequence[Message], numbers: dict[Name, int], ids: list[int]) -> None:
        self.producer, self.messages, self.numbers, self.ids = producer, messages, numbers, ids
        self.owner = messages[0].namespace  # whose turn it takes
        self.beside: set[int] = set()  # those whose key is taken by the statement that adds them
        self.version = 0  # of the slot map by which they were chosen
        self.result = Enqueued(ids=[None] * len(messages))

    def key_of(self, index: int) -> Key | None:
        message = self.messages[index]
        return None if message.idempotency_key is None else (message.namespace, message.idempotency_key)

    def repeated(self) -> dict[int, int]:
        """Messages whose key an earlier one of the request has, and that one: it is the one which is meant."""
        firsts: dict[Key, int] = {}
        found = {}
        for index in range(len(self.messages)):
            if (key := self.key_of(index)) and (first := firsts.setdefault(key, index)) != index:
                found[index] = first
        return found

    def topic_of(self, index: int) -> int:
        message = self.messages[index]
        return self.numbers[message.namespace, message.topic]

    def row_of(self, index: int) -> tuple[Any, ...]:
        beside = index in self.beside
        return row_of(self.ids[index], self.topic_of(index), self.messages[index], self.producer, beside=beside)

    def record_of(self, index: int, now_us: int) -> Record:
        return record_of(self.ids[index], self.topic_of(index), self.messages[index], self.producer, now_us)

    def buffered(self, index: int, error: MqueueError | None) -> None:
        if isinstance(error, Undecided):
            self.in_doubt(index, error)
        elif error:
            self.failed(index, error)
        else:
            self.added(index)
            self.result.buffered = True

    def is_sure(self, index: int) -> bool:
        return self.result.ids[index] is not None and index not in self.result.in_doubt

    def added(self, index: int) -> None:
        self.result.ids[index] = self.ids[index]

    def is_there(self, index: int) -> None:
        self.result.ids[index] = self.ids[index]
        self.result.there.append(index)

    def repeats(self, index: int, meant: int) -> None:
        self.result.ids[index] = self.result.ids[meant]
        if self.result.ids[meant] is not None:
            self.result.there.append(index)
        if meant in self.result.in_doubt:
            self.result.in_doubt.append(index)

    def in_doubt(self, index: int, error: MqueueError) -> None:
        self.result.ids[index] = self.ids[index]
        self.result.in_doubt.append(index)
        self.result.error = error

    def failed(self, index: int, error: Exception) -> None:
        if not isinstance(error, MqueueError):
            raise error
        self.result.error = error
