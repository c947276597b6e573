"""Change what waits: cancel a message, or give it another place in the order."""

from typing import Any, LiteralString

from mqueue.core.errors import Leased, NotFound, SlotMoved
from mqueue.core.messages import Move, Place
from mqueue.engine.failures import fail_one_overdue
from mqueue.engine.hot import Hot
from mqueue.engine.inserts import LONG_AGO
from mqueue.engine.topics import Topics
from shards.calls import change, fetch
from shards.cluster import Cluster
from shards.ids import slot_of_id
from shards.patience import on_owner
from shards.pools import Database
from shards.routing import slot_of
from shards.sql import statement

TRIES = 3


class Waiting:
    def __init__(self, cluster: Cluster, topics: Topics, hot: Hot) -> None:
        self._cluster, self._topics, self._hot = cluster, topics, hot

    async def cancel(self, who: str, message_id: int, place: Place) -> None:
        number = await self._number(place)
        slot = slot_of(place.namespace, place.topic)
        parameters = {"id": message_id, "topic": number, "consumer": who}

        async def cancel(shard: Database) -> Any:
            return await _one(shard, statement("cancel"), parameters, slot)

        row = await on_owner(self._cluster, slot, cancel)
        if row[0]:
            raise Leased

    async def move(self, who: str, message_id: int, move: Move) -> str:
        """The state that it is in now."""
        number, slot = await self._number(move), slot_of(move.namespace, move.topic)
        parameters = {
            "id": message_id,
            "topic": number,
            "consumer": who,
            "priority": move.priority,
            "at": move.deliver_after and max(move.deliver_after, LONG_AGO),
            "delay_ms": move.delay_ms,
        }

        async def give_place(shard: Database) -> Any:
            for _ in range(TRIES):
                with self._hot[shard].owing([number]):
                    leased, is_over, ref, due = await _one(shard, statement("move"), parameters, slot)
                if not leased:
                    await self._hot[shard].offer_rows([(number, ref, due)])
                    return due
                if not is_over:
                    break
                # Nobody holds it any more.
                await fail_one_overdue(shard, self._hot[shard], self._topics.settings, message_id)
            raise Leased

        due = await on_owner(self._cluster, slot, give_place)
        return "scheduled" if due else "ready"

    async def _number(self, place: Place) -> int:
        number = await self._topics.find((place.namespace, place.topic))
        if number is None:
            raise _none()
        return number


async def _one(shard: Database, query: LiteralString, parameters: dict[str, Any], topics_slot: int) -> Any:
    rows = await change(shard, query, parameters)
    if rows:
        return rows[0]
    slot = slot_of_id(parameters["id"])
    if slot == topics_slot and (await fetch(shard, statement("has_left"), {"slot": slot}))[0][0]:
        raise SlotMoved(slots=frozenset({slot}))
    raise _none()


def _none() -> NotFound:
    return NotFound("This topic has no such message that waits")
