"""One statement on one database, and all of its answer."""

from typing import Any, LiteralString

from shards.partitions import with_partitions
from shards.pools import Database


async def fetch(database: Database, query: LiteralString, parameters: dict[str, Any]) -> list[Any]:
    """Rows travel in binary: neither side writes or reads times and payloads as text."""
    async with database.connection() as connection:
        return await (await connection.execute(query, parameters, binary=True)).fetchall()


async def change(database: Database, query: LiteralString, parameters: dict[str, Any]) -> list[Any]:
    """For a statement that writes events or messages: a missing partition is made."""
    return await with_partitions(database, (), lambda: fetch(database, query, parameters))
