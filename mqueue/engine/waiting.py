"""Change what waits: cancel a message, or give it another place in the order."""

from typing import Any, LiteralString

from mqueue.core.errors import Leased, NotFound
from mqueue.core.messages import Move, Place
from mqueue.engine.hot import Hot
from mqueue.engine.inserts import LONG_AGO
from mqueue.engine.topics import Topics
from shards.calls import change
from shards.cluster import Cluster
from shards.pools import Database
from shards.sql import statement


class Waiting:
    def __init__(self, cluster: Cluster, topics: Topics, hot: Hot) -> None:
        self._cluster, self._topics, self._hot = cluster, topics, hot

    async def cancel(self, who: str, message_id: int, place: Place) -> None:
        shard, number = await self._home(place)
        row = await _one(shard, statement("cancel"), {"id": message_id, "topic": number, "consumer": who})
        if row[0]:
            raise Leased

    async def move(self, who: str, message_id: int, move: Move) -> str:
        """The state that it is in now."""
        shard, number = await self._home(move)
        parameters = {
            "id": message_id,
            "topic": number,
            "consumer": who,
            "priority": move.priority,
            "at": move.deliver_after and max(move.deliver_after, LONG_AGO),
            "delay_ms": move.delay_ms,
        }
        with self._hot[shard].owing([number]):
            leased, ref, due = await _one(shard, statement("move"), parameters)
        if leased:
            raise Leased
        await self._hot[shard].offer_rows([(number, ref, due)])
        return "scheduled" if due else "ready"

    async def _home(self, place: Place) -> tuple[Database, int]:
        number = await self._topics.find((place.namespace, place.topic))
        if number is None:
            raise _none()
        return self._cluster.shard_of_topic(place.namespace, place.topic), number


async def _one(shard: Database, query: LiteralString, parameters: dict[str, Any]) -> Any:
    rows = await change(shard, query, parameters)
    if not rows:
        raise _none()
    return rows[0]


def _none() -> NotFound:
    return NotFound("This topic has no such message that waits")
