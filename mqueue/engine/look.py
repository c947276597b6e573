"""Look without touching: one message, the head of a topic, a trace, the counts."""

import asyncio
from typing import Any

from mqueue.core.errors import NotFound
from mqueue.core.messages import Depth, Event, Find, Looked, Place, StatsPage
from mqueue.engine.archived import events_of, is_whole, settled_row
from mqueue.engine.contents import READ_AT_ONCE, Page, content, headers
from mqueue.engine.history import History
from mqueue.engine.merging import merged
from mqueue.engine.topics import Topics
from shards.calls import fetch
from shards.cluster import Cluster
from shards.routing import slot_of
from shards.sql import statement
from tenants.registry import Name

TOPICS_A_PAGE = 1_000
UNSEEN = "There is no such message in this topic"


class Looking:
    def __init__(self, cluster: Cluster, topics: Topics, history: History) -> None:
        self._cluster, self._topics, self._history = cluster, topics, history

    async def message(self, message_id: int, place: Place) -> Looked:
        name = (place.namespace, place.topic)
        found = await self._messages(name, [message_id]) or await self._archived(name, message_id)
        if not found:
            raise NotFound(UNSEEN)
        return found[0]

    async def find(self, wanted: Find) -> list[Looked]:
        if wanted.idempotency_key is not None:
            return await self._by_key(wanted.namespace, wanted.topic, wanted.idempotency_key)
        assert wanted.topic is not None  # parse_find saw to it
        name = (wanted.namespace, wanted.topic)
        number = await self._topics.find(name)
        if number is None:
            return []
        parameters = {"topic": number, "limit": wanted.limit, "later": wanted.state == "scheduled"}
        query = statement("leased_ids") if wanted.state == "leased" else statement("waiting_ids")
        ids = [row[0] for row in await fetch(self._cluster.reader_of_topic(*name), query, parameters)]
        return await self._page(name, ids, wanted.state)

    async def _page(self, name: Name, ids: list[int], state: str) -> list[Looked]:
        page, taken = Page(len(ids)), list[Looked]()
        for start in range(0, len(ids), READ_AT_ONCE):
            part = ids[start : start + READ_AT_ONCE]
            found = {message.id: message for message in await self._messages(name, part)}
            for message in (found[number] for number in part if number in found):
                if message.state != state:
                    continue
                if not page.takes(_bytes(message)):
                    return taken
                taken.append(message)
        return taken

    async def trace(self, message_id: int, place: Place) -> list[Event]:
        name = (place.namespace, place.topic)
        number = await self._topics.find(name)
        rows = []
        if number is not None:
            shard = self._cluster.reader_of_topic(*name)
            rows = await fetch(shard, statement("trace"), {"id": message_id, "topic": number})
            if self._history.is_on and not is_whole(rows):
                rows = events_of(await self._history.of_message(number, message_id), rows)
        if not rows:
            raise NotFound(UNSEEN)
        return [Event(*row) for row in rows]

    async def stats(self, wanted: StatsPage) -> list[Depth]:
        shards = self._cluster.shards
        if wanted.topic is not None:
            shards = (self._cluster.reader_of_topic(wanted.namespace, wanted.topic),)
        parameters = {
            "namespace": wanted.namespace,
            "topic": wanted.topic,
            "after": wanted.after,
            "limit": TOPICS_A_PAGE,
        }
        pages = await asyncio.gather(*(fetch(shard, statement("stats"), parameters) for shard in shards))
        rows = merged(self._cluster, shards, pages, TOPICS_A_PAGE, lambda row: slot_of(wanted.namespace, row[0]))
        return [Depth(wanted.namespace, *row) for row in rows]

    async def _by_key(self, namespace: str, topic: str | None, key: str) -> list[Looked]:
        shard = self._cluster.reader_of_topic(namespace, key)
        rows = await fetch(shard, statement("key_owners"), {"namespace": [namespace], "key": [key]})
        if not rows:
            return []
        message_id, number = rows[0][2:4]
        names = await fetch(self._cluster.reader_of_id(message_id), statement("topic_name"), {"id": number})
        if not names or topic not in (None, names[0][0]):
            return []
        return await self._messages((namespace, names[0][0]), [message_id])

    async def _messages(self, name: Name, ids: list[int]) -> list[Looked]:
        number = await self._topics.find(name)
        if number is None or not ids:
            return []
        rows = await fetch(self._cluster.reader_of_topic(*name), statement("look"), {"ids": ids, "topic": number})
        topics_retries = self._topics.settings(number).max_retries
        return [_looked(name, row, topics_retries) for row in rows if row[1] not in (None, "deleted")]

    async def _archived(self, name: Name, message_id: int) -> list[Looked]:
        """What has left the shard, or whose end has: settled, then, since nothing else leaves."""
        number = await self._topics.find(name) if self._history.is_on else None
        if number is None:
            return []
        live = await fetch(
            self._cluster.reader_of_topic(*name), statement("trace"), {"id": message_id, "topic": number}
        )
        row = settled_row(await self._history.of_message(number, message_id), live)
        return [_looked(name, row, self._topics.settings(number).max_retries)] if row else []


def _bytes(message: Looked) -> bytes:
    return bytes(message.body) if message.body else message.payload or b""


def _looked(name: Name, row: Any, topics_retries: int) -> Looked:
    number, state, priority, is_json, payload, named, traceparent, attempts, max_retries, enqueued_at, *rest = row
    deliver_after, due, lease_expires_at, expires_at, key, died_at, error, reason = rest
    more: dict[str, Any] = content(is_json, payload)
    if traceparent:
        more["traceparent"] = traceparent
    if state == "dead":
        more |= {"died_at": died_at, "error": error, "reason": reason}
    return Looked(
        id=number,
        namespace=name[0],
        topic=name[1],
        state=state,
        priority=priority,
        headers=headers(named),
        attempts=attempts or 0,
        max_retries=topics_retries if max_retries is None else max_retries,
        enqueued_at=enqueued_at,
        deliver_after=deliver_after,
        due=due,
        lease_expires_at=lease_expires_at,
        expires_at=expires_at,
        idempotency_key=key,
        **more,
    )
