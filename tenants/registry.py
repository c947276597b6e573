"""Numbers of topics: given by the control database once, and the same on every shard from then on."""

from collections.abc import Iterable
from typing import Any

from psycopg import AsyncConnection

Name = tuple[str, str]  # namespace, topic

FIND = """
SELECT n.name, t.name, t.id FROM unnest(%(namespaces)s::text[], %(topics)s::text[]) AS wanted (namespace, topic)
JOIN namespace n ON n.name = wanted.namespace JOIN topic t ON t.namespace_id = n.id AND t.name = wanted.topic
"""
MAKE_NAMESPACES = """
INSERT INTO namespace (name) SELECT DISTINCT unnest(%(namespaces)s::text[]) ORDER BY 1 ON CONFLICT DO NOTHING
"""
MAKE_TOPICS = """
INSERT INTO topic (namespace_id, name)
SELECT n.id, wanted.topic FROM unnest(%(namespaces)s::text[], %(topics)s::text[]) AS wanted (namespace, topic)
JOIN namespace n ON n.name = wanted.namespace
ORDER BY n.id, wanted.topic ON CONFLICT DO NOTHING
"""


async def find_topics(connection: AsyncConnection[Any], names: Iterable[Name]) -> dict[Name, int]:
    """Those that exist."""
    cursor = await connection.execute(FIND, _columns(names))
    return {(namespace, topic): number for namespace, topic, number in await cursor.fetchall()}


async def make_topics(connection: AsyncConnection[Any], names: Iterable[Name], *, with_namespaces: bool) -> None:
    """Those that do not exist yet; racing callers make each once. Sorted, so that they cannot lock crosswise."""
    columns = _columns(sorted(names))
    if with_namespaces:
        await connection.execute(MAKE_NAMESPACES, columns)
    await connection.execute(MAKE_TOPICS, columns)


def _columns(names: Iterable[Name]) -> dict[str, list[str]]:
    pairs = list(names)
    return {"namespaces": [namespace for namespace, _ in pairs], "topics": [topic for _, topic in pairs]}
