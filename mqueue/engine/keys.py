"""Idempotency keys: N racing requests with one key yield one message, wherever they crash.

A key's row lies on the shard of its own slot and names one message. It is taken first, then the message is added, then
the key is confirmed. Whoever finds a key that is taken and not confirmed adds the message under the id that it names:
only one of them succeeds. Where he wants another topic, he first makes sure that the named message never comes (a
fence), and then gives the key to his own.

Requests that want several keys for different topics would fence each other for ever if all were as hasty. So the one
with the lower ids goes ahead and the other waits for it, for a second at most: by then it has crashed.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, LiteralString

from mqueue.core.errors import ShardUnavailable, SlotMoved
from shards.calls import fetch
from shards.cluster import Cluster
from shards.patience import Patience
from shards.pools import Database
from shards.routing import SLOTS
from shards.sql import statement

Key = tuple[str, str]  # namespace, key
ROUNDS = 50
PAUSES_S = (0.005, 0.05)  # between two rounds: the first, and the longest
PATIENCE_S = 1.0
OFFERED_S = 10.0  # whoever took a key together with its message, and lives, has offered the message by then


@dataclass(slots=True)
class Claim:
    """One key of a request: the id that its message shall have, until somebody else's turns out to have the key."""

    key: Key
    id: int
    topic: int
    is_there: bool = False  # the message of this id exists already
    silent_topic: int | None = None  # … and whoever added it may not have offered it yet, to this topic
    error: Exception | None = None


class Keys:
    def __init__(self, cluster: Cluster, window_ms: int) -> None:
        self._cluster, self._window_ms = cluster, window_ms

    async def take(self, claims: Iterable[Claim]) -> None:
        """After this, each claim names the message that its key has, or says why not. To take one again that was taken
        changes nothing, so those that meet a slot which moves are taken again."""
        left, patience = list(claims), Patience(self._cluster)
        while left:
            moved: list[tuple[Claim, SlotMoved]] = []
            parts = self._parts(left, moved)
            for found in await asyncio.gather(*(self._take_on(shard, part) for shard, part in parts.items())):
                moved += found
            left = [claim for claim, _ in moved]
            if moved and not await patience.outlasts(moved[0][1], moved[0][1].slots):
                for claim, error in moved:
                    claim.error = error
                return

    async def named(self, keys: Iterable[Key]) -> dict[Key, Claim]:
        """Of those whose message surely is there, which one it is. Nothing is taken."""
        parts = self._parts((Claim(key, 0, 0) for key in set(keys)), [])
        found = {}
        for shard, part in parts.items():
            for namespace, key, number, topic, confirmed, held_s in await fetch(
                shard, statement("key_owners"), _columns(part)
            ):
                if confirmed and held_s * 1000 < self._window_ms:
                    silent = topic if held_s < OFFERED_S else None
                    found[namespace, key] = Claim((namespace, key), number, topic, is_there=True, silent_topic=silent)
        return found

    async def confirm(self, claims: Iterable[Claim]) -> None:
        """Best effort: an unconfirmed key costs its next user a look."""
        parts = self._parts(claims, [])
        calls = (_execute(shard, statement("confirm_keys"), _columns(part)) for shard, part in parts.items())
        await asyncio.gather(*calls, return_exceptions=True)

    async def fenced_among(self, shard: Database, ids: list[int]) -> set[int]:
        return {row[0] for row in await fetch(shard, statement("fenced"), {"ids": ids})}

    def _parts(self, claims: Iterable[Claim], moved: list[tuple[Claim, SlotMoved]]) -> dict[Database, list[Claim]]:
        """By the shards of the keys; those whose slots have no owner just now are put aside."""
        parts: dict[Database, list[Claim]] = defaultdict(list)
        for claim in claims:
            try:
                parts[self._cluster.shard_of_key(*claim.key)].append(claim)
            except SlotMoved as error:
                moved.append((claim, error))
        return parts

    async def _take_on(self, shard: Database, claims: list[Claim]) -> list[tuple[Claim, SlotMoved]]:
        """Those that have met a slot which moves."""
        left = claims
        try:
            for turn in range(ROUNDS):
                left = await self._one_round(shard, left)
                if not left:
                    return []
                first, longest = PAUSES_S
                await asyncio.sleep(min(longest, first * 2**turn))
            error: Exception = ShardUnavailable("Too many requests race for one idempotency key", retry_after_s=1.0)
        except SlotMoved as moved:
            return [(claim, moved) for claim in left]
        except Exception as raised:  # noqa: BLE001  it is the answer for these keys; the others go on
            error = raised
        for claim in left:
            claim.error = error
        return []

    async def _one_round(self, shard: Database, claims: list[Claim]) -> list[Claim]:
        """Those that have to try again: somebody was quicker."""
        columns = _columns(claims) | {"window_ms": self._window_ms}
        taken = set(await fetch(shard, statement("reserve_keys"), columns))
        others = [claim for claim in claims if claim.key not in taken]
        if not others:
            return []
        owners = {(row[0], row[1]): row[2:] for row in await fetch(shard, statement("key_owners"), _columns(others))}
        return [claim for claim in others if not await self._settled(shard, claim, owners.get(claim.key))]

    async def _settled(self, shard: Database, claim: Claim, owner: Any) -> bool:
        """False where somebody was quicker, or comes first."""
        if owner is None:
            return False
        number, topic, confirmed, held_s = owner
        if confirmed:
            claim.id, claim.is_there = number, True
            claim.silent_topic = topic if held_s < OFFERED_S else None
            return True
        home = self._cluster.reader_of_id(number)
        if topic == claim.topic and not await self.fenced_among(home, [number]):
            claim.id = number
            return True
        if topic != claim.topic and held_s < PATIENCE_S and number // SLOTS < claim.id // SLOTS:
            return False
        home = self._cluster.shard_of_id(number)
        await _execute(home, statement("fence"), {"id": number})
        if not await self.fenced_among(home, [number]):
            claim.id, claim.is_there, claim.silent_topic = number, True, topic
            return True
        swap = {"id": claim.id, "topic": claim.topic, "namespace": claim.key[0], "key": claim.key[1], "fenced": number}
        return await _execute(shard, statement("swap_key"), swap) == 1


def _columns(claims: Iterable[Claim]) -> dict[str, Any]:
    rows = [(*claim.key, claim.id, claim.topic) for claim in claims]
    return {name: [row[n] for row in rows] for n, name in enumerate(("namespace", "key", "id", "topic"))}


async def _execute(shard: Database, query: LiteralString, parameters: dict[str, Any]) -> int:
    async with shard.connection() as connection:
        return (await connection.execute(query, parameters)).rowcount
