"""Dead letters: read them, let them live again, delete them."""

import asyncio
import datetime
from functools import partial
from typing import Any, LiteralString

from msgspec.structs import replace

from mqueue.core.messages import DeadChoice, DeadLetter, DeadPage
from mqueue.engine.contents import READ_AT_ONCE, Page, content, headers
from mqueue.engine.hot import Hot
from mqueue.engine.merging import merged
from mqueue.engine.topics import Topics
from shards.calls import change, fetch
from shards.cluster import Cluster
from shards.patience import on_owner
from shards.pools import Database
from shards.routing import slot_of
from shards.sql import statement
from tenants.registry import Name

PORTION = 500  # letters of one transaction: a quarter of a MiB each at most


class DeadLetters:
    def __init__(self, cluster: Cluster, topics: Topics, hot: Hot) -> None:
        self._cluster, self._topics, self._hot = cluster, topics, hot

    async def page(self, wanted: DeadPage) -> list[DeadLetter]:
        page, letters = Page(wanted.limit), list[DeadLetter]()
        after = wanted.after
        while left := min(READ_AT_ONCE, wanted.limit - len(letters)):
            rows = await self._rows(replace(wanted, after=after, limit=left))
            for row in rows:
                if not page.takes(row[4]):
                    return letters
                letters.append(letter_of(wanted.namespace, row))
            if len(rows) < left:
                break
            after = rows[-1][0]
        return letters

    async def _rows(self, wanted: DeadPage) -> list[Any]:
        shards = self._cluster.shards
        if wanted.topic is not None:
            shards = (self._cluster.reader_of_topic(wanted.namespace, wanted.topic),)
        found = await asyncio.gather(*(self._page_of(shard, wanted) for shard in shards))
        return list(merged(self._cluster, shards, found, wanted.limit, lambda row: slot_of(wanted.namespace, row[1])))

    async def delete(self, consumer: str, choice: DeadChoice) -> int:
        return await self._each_portion(statement("dead_delete"), consumer, choice, live_again=False)

    async def replay(self, consumer: str, choice: DeadChoice) -> int:
        return await self._each_portion(statement("dead_replay"), consumer, choice, live_again=True)

    async def act(self, verb: str, name: Name, ids: list[int], by: datetime.datetime, who: tuple[str, str]) -> int:
        """For a job: replay or delete a portion of letters, but not what died again since it looked. `who` is the
        consumer and the detail of the events. How many it were."""
        number = await self._topics.find(name)
        if number is None:
            return 0
        act = {"topic": number, "ids": sorted(ids), "consumer": who[0], "detail": who[1], "by": by}
        query = statement("dead_replay") if verb == "replay" else statement("dead_delete")
        shard = self._cluster.shard_of_topic(*name)
        return await self._change(shard, query, act, live_again=verb == "replay")

    async def _page_of(self, shard: Database, wanted: DeadPage) -> list[Any]:
        parameters = {
            "namespace": wanted.namespace,
            "topic": wanted.topic,
            "after": wanted.after,
            "limit": wanted.limit,
        }
        return await fetch(shard, statement("dead_page"), parameters)

    async def _each_portion(self, query: LiteralString, consumer: str, choice: DeadChoice, *, live_again: bool) -> int:
        """In portions, so that a million letters hold no lock for long; what is done stays done."""
        number = await self._topics.find((choice.namespace, choice.topic))
        if number is None:
            return 0
        slot = slot_of(choice.namespace, choice.topic)
        done, after = 0, 0
        named = sorted({choice.id} if choice.id is not None else set(choice.ids or ()))
        while ids := await self._next_ids(slot, number, after) if choice.all else named[:PORTION]:
            act = {"topic": number, "ids": ids, "consumer": consumer, "detail": None, "by": None}
            changing = partial(self._change, query=query, act=act, live_again=live_again)
            done += await on_owner(self._cluster, slot, changing)
            after, named = ids[-1], named[PORTION:]
        return done

    async def _change(self, shard: Database, query: LiteralString, act: dict[str, Any], *, live_again: bool) -> int:
        with self._hot[shard].owing([act["topic"]]):
            rows = await change(shard, query, act)
        if live_again:
            await self._hot[shard].offer_rows(rows)
        return len(rows)

    async def _next_ids(self, slot: int, number: int, after: int) -> list[int]:
        parameters = {"topic": number, "after": after, "limit": PORTION}
        shard = self._cluster.reader_of_slot(slot)
        return [row[0] for row in await fetch(shard, statement("dead_ids"), parameters)]


def letter_of(namespace: str, row: Any) -> DeadLetter:
    number, topic, priority, is_json, payload, named, attempts, error, reason, enqueued_at, died_at = row
    return DeadLetter(
        id=number,
        namespace=namespace,
        topic=topic,
        priority=priority,
        headers=headers(named),
        attempts=attempts,
        error=error,
        reason=reason,
        enqueued_at=enqueued_at,
        died_at=died_at,
        **content(is_json, payload),
    )
