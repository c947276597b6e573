"""What a request does when its slot moves: it waits for the new owner, and not for ever."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from mqueue.core.errors import SlotMoved
from shards.cluster import Cluster
from shards.pools import Database

T = TypeVar("T")
PATIENCE_S = 1.5


class Patience:
    """Of one request."""

    def __init__(self, cluster: Cluster) -> None:
        self._slots = cluster.slots
        self._until = time.monotonic() + PATIENCE_S

    @property
    def left_s(self) -> float:
        return max(0.0, self._until - time.monotonic())

    async def outlasts(self, error: SlotMoved, slots: Iterable[int]) -> bool:
        """Whether it is worth another try. Who has only shared a statement with those that move need not wait."""
        if time.monotonic() >= self._until:
            return False
        holding = self._slots.hold(error.slots)
        if not error.slots.isdisjoint(slots):
            await asyncio.shield(holding)
        return True


async def on_owner(cluster: Cluster, slot: int, work: Callable[[Database], Awaitable[T]]) -> T:
    """Do it on the shard that owns the slot, and again where the slot has moved; it does all or nothing."""
    patience: Patience | None = None
    while True:
        try:
            return await work(cluster.shard_of_slot(slot))
        except SlotMoved as error:
            patience = patience or Patience(cluster)
            if not await patience.outlasts(error, (slot,)):
                raise
