"""How far the logs of buffered messages are committed, as a shard says."""

from collections.abc import Iterable
from uuid import UUID

from shards.calls import fetch
from shards.pools import Database
from shards.sql import statement


async def read_marks(shard: Database, writers: Iterable[UUID]) -> dict[UUID, int]:
    """By writer; 0 for one of which nothing is committed."""
    return dict(await fetch(shard, statement("marks"), {"writers": list(writers)}))
