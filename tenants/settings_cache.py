"""What a process knows of settings, quotas and keys: looked up without a call, and never more than a second old.

Two trivial queries a second ask the control database for its version of all settings; only when that has grown is what
changed read. A namespace's key is refused here within that time of its revocation. While the control database is down,
settings and quotas stay as they were, and keys hold for ten minutes.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import psycopg
from psycopg import AsyncConnection

from mqueue.core.credentials import Key
from mqueue.core.errors import ControlUnavailable, ShardUnavailable
from tenants.snapshot import DEFAULTS, NO_QUOTAS, Changes, Quotas, TopicSettings, changes_since

log = logging.getLogger(__name__)
LOOK_EVERY_S = 0.5
REST_S = 0.1  # between two looks, however many ask for one
KEYS_HOLD_S = 600.0
UNKNOWN_FOR_S, MOST_UNKNOWN = 10.0, 10_000
NOTE_USE_EVERY_S = 60.0
NOTE_USE = """
UPDATE namespace_key SET last_used_at = now() WHERE kid IN (
    SELECT kid FROM namespace_key
    WHERE kid = ANY(%s) AND (last_used_at IS NULL OR last_used_at < now() - interval '30 seconds')
    ORDER BY kid FOR UPDATE SKIP LOCKED
)
"""


class Connects(Protocol):
    """The control database."""

    def connection(self) -> AbstractAsyncContextManager[AsyncConnection[Any]]: ...


class SettingsCache:
    def __init__(self, control: Connects, quota_seeds: Mapping[str, int]) -> None:
        self._control = control
        self._seeds = {namespace: Quotas(messages_per_minute=amount) for namespace, amount in quota_seeds.items()}
        self._version = 0
        self._topics: dict[int, TopicSettings] = {}
        self._quotas: dict[str, Quotas] = {}
        self.limited: Mapping[str, Quotas] = self._seeds  # the namespaces that have any limit
        self.weights: dict[str, int] = {}  # of those that have one; the same dictionary for good
        self._keys: dict[str, Key] = {}
        self._unknown: dict[str, float] = {}
        self._fresh_at = float("-inf")
        self._noted_at = time.monotonic()
        self._asked = asyncio.Event()
        self._next_look: asyncio.Future[bool] | None = None
        self._looking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Does not wait for a control database that is down."""
        self._next_look = asyncio.get_running_loop().create_future()
        await self._look()
        self._looking = asyncio.create_task(self._keep_looking(), name="look for changed settings")

    async def close(self) -> None:
        while self._looking and not self._looking.done():
            self._looking.cancel()  # again where a connection in mid-query has swallowed it
            await asyncio.wait([self._looking], timeout=0.1)
        self._tell(self._next_look, False)
        if self._looking:
            with contextlib.suppress(ShardUnavailable, psycopg.Error):
                await self._note_use()

    def topic(self, number: int) -> TopicSettings:
        return self._topics.get(number, DEFAULTS)

    def quota(self, namespace: str) -> Quotas:
        return self.limited.get(namespace, NO_QUOTAS)

    def key(self, kid: str) -> Key | None:
        """None where there is none that is live, or where nobody can tell any more."""
        return self._keys.get(kid) if time.monotonic() - self._fresh_at < KEYS_HOLD_S else None

    async def look_for(self, kid: str) -> None:
        """A key that is not known here: it may have been made a moment ago. All who wait share one look, so a flood of
        unknown kids costs ten a second; one that was looked for in vain is not looked for again at once, since a kid
        is random, and none is asked for before it is made. Raises where the control database cannot tell."""
        assert self._next_look, "open() comes first"
        if self._unknown.get(kid, 0.0) > time.monotonic():
            return
        self._asked.set()
        if not await asyncio.shield(self._next_look):
            raise ControlUnavailable("The keys cannot be looked up now; try again", retry_after_s=1.0)
        if kid not in self._keys:
            if len(self._unknown) >= MOST_UNKNOWN:
                self._unknown.clear()
            self._unknown[kid] = time.monotonic() + UNKNOWN_FOR_S

    async def _keep_looking(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S - REST_S):
                    await self._asked.wait()
            self._asked.clear()
            awaited, self._next_look = self._next_look, asyncio.get_running_loop().create_future()
            self._tell(awaited, await self._look())
            await asyncio.sleep(REST_S)

    @staticmethod
    def _tell(awaited: "asyncio.Future[bool] | None", found: bool) -> None:
        if awaited and not awaited.done():
            awaited.set_result(found)

    async def _look(self) -> bool:
        """Whether the control database could tell."""
        began = time.monotonic()
        try:
            async with self._control.connection() as connection:
                changes = await changes_since(connection, self._version)
            if changes:
                self._take(changes)
            self._fresh_at = began
            if began - self._noted_at > NOTE_USE_EVERY_S:
                await self._note_use()
        except ShardUnavailable:
            return False
        except Exception:
            log.exception("settings: cannot be read")
            return False
        return True

    def _take(self, changes: Changes) -> None:
        if changes.is_whole:
            self._topics, self._quotas, self._keys = {}, {}, {}
        _merge(self._topics, changes.topics)
        _merge(self._quotas, changes.quotas)
        _merge(self._keys, changes.keys)
        if changes.quotas or changes.is_whole:
            quotas = self._seeds | self._quotas
            self.limited = {name: of_it for name, of_it in quotas.items() if of_it.limits}
            self.weights.clear()
            self.weights.update({name: of_it.weight for name, of_it in quotas.items() if of_it.weight})
        log.info("settings: version %s", changes.version)
        self._version = changes.version

    async def _note_use(self) -> None:
        """Once a minute, and not for every request: when a key was used last is for people to read."""
        self._noted_at = time.monotonic()
        used = [key for key in self._keys.values() if key.was_used]
        if not used:
            return
        for key in used:
            key.was_used = False
        async with self._control.connection() as connection:
            await connection.execute(NOTE_USE, [[key.kid for key in used]])


def _merge(known: dict[Any, Any], changes: Mapping[Any, Any]) -> None:
    for name, value in changes.items():
        if value is None:
            known.pop(name, None)
        else:
            known[name] = value
