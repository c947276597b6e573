"""Enqueues within quotas: all of a request, or nothing. What was admitted and not added is given back."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from mqueue.core import metrics
from mqueue.core.errors import QuotaExceeded, ShardUnavailable, TooLarge
from mqueue.core.gcra import Ask, Refusal, per_minute
from mqueue.core.messages import Message
from mqueue.engine.buckets import Buckets
from mqueue.engine.enqueue import Enqueued
from mqueue.engine.levels import STORED, Levels, Room
from mqueue.engine.uncommitted import Uncommitted
from tenants.settings_cache import SettingsCache
from tenants.snapshot import Quotas

FULL_RETRY_S = 1.0  # nobody knows when there will be room
Enqueue = Callable[[str, Sequence[Message]], Awaitable[Enqueued]]
Repeated = Callable[[Sequence[Message]], Awaitable[Enqueued | None]]


@dataclass(slots=True)
class Part:
    """What a request has for one namespace that has quotas."""

    namespace: str
    quotas: Quotas
    indexes: list[int] = field(default_factory=list)
    size: int = 0


class Admission:
    def __init__(  # noqa: PLR0917
        self,
        settings: SettingsCache,
        buckets: Buckets,
        levels: Levels,
        uncommitted: Uncommitted,
        enqueue: Enqueue,
        repeated: Repeated,
    ) -> None:
        self._settings, self._buckets, self._levels, self._uncommitted = settings, buckets, levels, uncommitted
        self._enqueue, self._repeated = enqueue, repeated

    async def enqueue(self, producer: str, messages: Sequence[Message]) -> Enqueued:
        parts = self._parts(messages)
        if not parts:
            return await self._enqueue(producer, messages)
        asks = [ask for part in parts for ask in _asks(part)]
        try:
            for part in parts:
                _require_possible(part)
            await self._take(asks)
            rooms = await self._reserve(parts, asks)
        except (QuotaExceeded, TooLarge):
            if found := await self._answer_again(messages):
                return found
            raise
        try:
            result = await self._enqueue(producer, messages)
        except Exception:
            await self._give_back(asks, rooms)
            raise
        await self._settle(parts, rooms, messages, result)
        return result

    async def _answer_again(self, messages: Sequence[Message]) -> Enqueued | None:
        """Whoever asks again since an answer was lost is not refused for what he has added himself."""
        with contextlib.suppress(ShardUnavailable):
            return await self._repeated(messages)
        return None

    def _parts(self, messages: Sequence[Message]) -> list[Part]:
        limited, parts = self._settings.limited, dict[str, Part]()
        for index, message in enumerate(messages):
            quotas = limited.get(message.namespace)
            if quotas is not None:
                part = parts.get(message.namespace)
                if part is None:
                    part = parts[message.namespace] = Part(message.namespace, quotas)
                part.indexes.append(index)
                part.size += message.size
        return list(parts.values())

    async def _take(self, asks: list[Ask]) -> None:
        answer = await self._buckets.take(asks) if asks else []
        if isinstance(answer, Refusal):
            limit, _, namespace = asks[answer.ask].name.partition(":")
            raise refused(limit, namespace, answer.wait_us / 1e6)

    async def _reserve(self, parts: list[Part], asks: list[Ask]) -> list[Room]:
        rooms: list[Room] = []
        for part in parts:
            most, count = part.quotas.max_stored, len(part.indexes)
            if most is None:
                continue
            room = await self._levels.reserve(STORED, part.namespace, count, count, most)
            if room is None:
                await self._give_back(asks, rooms)
                raise refused("max_stored", part.namespace, FULL_RETRY_S)
            rooms.append(room)
        return rooms

    async def _give_back(self, asks: list[Ask], rooms: list[Room]) -> None:
        await self._buckets.give_back(asks)
        for room in rooms:
            await self._levels.settle(room, 0)

    async def _settle(
        self, parts: list[Part], rooms: list[Room], messages: Sequence[Message], result: Enqueued
    ) -> None:
        """What was not added, or was there already, costs nothing."""
        there = set(result.there)
        lost = []
        for part in parts:
            missing = [index for index in part.indexes if result.ids[index] is None or index in there]
            if missing:
                size = sum(messages[index].size for index in missing)
                lost += _asks(Part(part.namespace, part.quotas, missing, size))
            for room in rooms:
                if room.namespace == part.namespace:
                    await self._settle_room(room, part, missing, result)
        await self._buckets.give_back(lost)

    async def _settle_room(self, room: Room, part: Part, missing: list[int], result: Enqueued) -> None:
        """What was added is seen by the next count, but for what is only logged."""
        own = set(part.indexes)
        logged = {shard: count for shard, many in result.logged.items() if (count := len(own.intersection(many)))}
        done = room.part(room.granted - sum(logged.values()))
        if logged:
            self._uncommitted.hold(room, logged)
        await self._levels.settle(done, done.granted - len(missing))


def refused(limit: str, namespace: str, retry_after_s: float) -> QuotaExceeded:
    metrics.refused(limit, namespace)
    return QuotaExceeded(f"{limit} of the namespace {namespace} is used up", retry_after_s=retry_after_s)


def _asks(part: Part) -> list[Ask]:
    found = []
    for limit, tokens in (("messages_per_minute", len(part.indexes)), ("bytes_per_minute", part.size)):
        quota = getattr(part.quotas, limit)
        if quota is not None:
            found.append(Ask(f"{limit}:{part.namespace}", per_minute(quota), tokens, tokens))
    return found


def _require_possible(part: Part) -> None:
    """What could never be admitted is not told to come again."""
    for ask in _asks(part):
        if ask.wanted > ask.bucket.holds:
            limit = ask.name.partition(":")[0]
            raise TooLarge(f"{ask.wanted} are more than the {ask.bucket.holds} that {limit} lets through at once")
    most = part.quotas.max_stored
    if most is not None and len(part.indexes) > most:
        raise TooLarge(f"{len(part.indexes)} messages are more than the {most} that max_stored allows")
