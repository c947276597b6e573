"""From names to numbers: what this process knows of topics."""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import Any

from psycopg import AsyncConnection

from mqueue.core import metrics
from mqueue.core.errors import NamespaceNotFound, QuotaExceeded
from mqueue.engine.coalesce import Coalescer
from shards.cluster import Cluster
from shards.pools import Database
from shards.sql import statement
from tenants.registry import Name, exceeded, find_topics, make_topics
from tenants.settings_cache import SettingsCache
from tenants.snapshot import TopicSettings

LOOK_AGAIN_S, LOOK_RARELY_S = 0.1, 1.0
SPARING = 20  # times as long as a look takes, there is none
FULL_RETRY_S = 1.0  # nobody knows when there will be room


def _whole(connection: AsyncConnection[Any], needed: object) -> contextlib.AbstractAsyncContextManager[Any]:
    """A transaction, where one is needed; without, topics that race lock one statement long."""
    return connection.transaction() if needed else contextlib.nullcontext()


class Topics:
    """A number never changes and never goes away, so what was seen once is known for good."""

    REMEMBERED = 1_000_000

    def __init__(self, cluster: Cluster, settings: SettingsCache, *, auto_create_namespaces: bool) -> None:
        self._cluster, self._settings = cluster, settings
        self._auto_create_namespaces = auto_create_namespaces
        self._numbers: dict[Name, int] = {}
        self._noted: dict[Database, set[int]] = {}
        self._awaited: dict[Name, set[asyncio.Future[int]]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._finds: Coalescer[Name, int | None] = Coalescer(self._look_up_each, most=10_000, name="find topics")

    def settings(self, number: int) -> TopicSettings:
        return self._settings.topic(number)

    def known(self, name: Name) -> int | None:
        """As `find`, of those that this process has met."""
        return self._numbers.get(name)

    def all_live(self, names: Iterable[Name]) -> dict[Name, int] | None:
        """Their numbers, if this process has met all of them, and none is deleted."""
        found = {}
        for name in names:
            number = self._numbers.get(name)
            if number is None or self._settings.topic(number).deleted:
                return None
            found[name] = number
        return found

    async def find(self, name: Name) -> int | None:
        number = self.known(name)
        return number if number is not None else await self._finds.enter(name)

    async def wait_for(self, name: Name, wait_s: float) -> tuple[int | None, float]:
        """Its number, if it is made in that time, and the seconds that it took. Whoever waits costs nothing: one looks
        for all that is awaited."""
        began = time.monotonic()
        number = await self.find(name) or self.known(name)
        if number is None and wait_s > 0:
            made: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            self._awaited.setdefault(name, set()).add(made)
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look_for_awaited(), name="look for topics")
            try:
                done, _ = await asyncio.wait([made], timeout=wait_s)
                number = made.result() if done else await self.find(name)
            finally:
                waiting = self._awaited.get(name, set())
                waiting.discard(made)
                if not waiting:
                    self._awaited.pop(name, None)
        return number, time.monotonic() - began

    async def _look_for_awaited(self) -> None:
        """Made by another process, they are seen at the next look. Ends when nobody waits any more."""
        pause_s = LOOK_AGAIN_S
        while self._awaited:
            await asyncio.sleep(pause_s)
            names, began = list(self._awaited), time.monotonic()
            try:
                if names:
                    await self._look_up(names)
            except Exception as error:  # noqa: BLE001  it is told to those who asked
                for made in (made for name in names for made in self._awaited.pop(name, ())):
                    made.set_exception(error)
                    made.exception()  # who waited may have left in this moment
            pause_s = min(LOOK_RARELY_S, max(LOOK_AGAIN_S, SPARING * (time.monotonic() - began)))

    async def find_all(self, wanted: set[Name]) -> dict[Name, int]:
        """Those that exist."""
        known = {name: self._numbers[name] for name in wanted if name in self._numbers}
        if len(known) < len(wanted):
            known |= await self._look_up(wanted - known.keys())
        return known

    async def find_or_make(self, names: Iterable[Name]) -> dict[Name, int]:
        """One that was deleted is made again, with its number."""
        wanted = set(names)
        found = await self.find_all(wanted)
        live = {name: number for name, number in found.items() if not self._settings.topic(number).deleted}
        if len(live) < len(wanted):
            live |= await self._make(wanted - live.keys())
        return live

    async def note_on(self, shard: Database, numbers: dict[Name, int]) -> None:
        """Write the names beside the rows that will carry the numbers; once a process and shard."""
        noted = self._noted.setdefault(shard, set())
        new = sorted((number, *name) for name, number in numbers.items() if number not in noted)
        if not new:
            return
        columns = {"id": [row[0] for row in new], "namespace": [row[1] for row in new], "name": [row[2] for row in new]}
        async with shard.connection() as connection:
            await connection.execute(statement("know_topics"), columns)
        if len(noted) + len(new) > self.REMEMBERED:
            noted.clear()  # to note one again changes nothing
        noted.update(row[0] for row in new)

    async def _look_up_each(self, names: Sequence[Name]) -> list[int | None]:
        found = await self._look_up(set(names))
        return [found.get(name) for name in names]

    async def _look_up(self, names: Iterable[Name]) -> dict[Name, int]:
        async with self._cluster.control.connection() as connection:
            found = await find_topics(connection, names)
        return self._remember(found)

    async def _make(self, names: set[Name]) -> dict[Name, int]:
        most = {namespace: limit for namespace, _ in names if (limit := self._settings.quota(namespace).max_topics)}
        async with self._cluster.control.connection() as connection, _whole(connection, most):
            if namespace := await exceeded(connection, names, most):
                metrics.refused("max_topics", namespace)
                detail = f"max_topics of the namespace {namespace} is used up"
                raise QuotaExceeded(detail, retry_after_s=FULL_RETRY_S)
            found = await make_topics(connection, names, with_namespaces=self._auto_create_namespaces)
        missing = sorted({namespace for namespace, _ in names - found.keys()})
        if missing:
            raise NamespaceNotFound(f"There is no namespace {', '.join(missing)}")
        return self._remember(found)

    def _remember(self, found: dict[Name, int]) -> dict[Name, int]:
        if len(self._numbers) + len(found) > self.REMEMBERED:
            self._numbers.clear()
        self._numbers.update(found)
        for name in self._awaited.keys() & found.keys():
            for made in self._awaited.pop(name):
                made.set_result(found[name])
        return found
