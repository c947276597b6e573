"""Numbers of topics: given by the control database once, and the same on every shard from then on.

A topic or a namespace that was deleted keeps its row and number, since rows on the shards carry it and processes know
it; its next message makes it again.

Nothing here is prepared: a plan that was kept from when there were few topics reads all of them for each name.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
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
REVIVE_NAMESPACES = """
UPDATE namespace SET deleted_at = NULL WHERE name = ANY(%(namespaces)s) AND deleted_at IS NOT NULL
"""
MAKE_TOPICS = """
INSERT INTO topic (namespace_id, name)
SELECT n.id, wanted.topic FROM unnest(%(namespaces)s::text[], %(topics)s::text[]) AS wanted (namespace, topic)
JOIN namespace n ON n.name = wanted.namespace AND n.deleted_at IS NULL
ORDER BY n.id, wanted.topic ON CONFLICT DO NOTHING
"""
REVIVE_TOPICS = """
UPDATE topic_settings s SET deleted_at = NULL
FROM unnest(%(namespaces)s::text[], %(topics)s::text[]) AS wanted (namespace, topic)
JOIN namespace n ON n.name = wanted.namespace AND n.deleted_at IS NULL
JOIN topic t ON t.namespace_id = n.id AND t.name = wanted.topic
WHERE s.topic_id = t.id AND s.deleted_at IS NOT NULL
"""
FIND_LIVE = """
SELECT n.name, t.name, t.id FROM unnest(%(namespaces)s::text[], %(topics)s::text[]) AS wanted (namespace, topic)
JOIN namespace n ON n.name = wanted.namespace AND n.deleted_at IS NULL
JOIN topic t ON t.namespace_id = n.id AND t.name = wanted.topic
"""


LOCK_NAMESPACES = """
SELECT 1 FROM namespace WHERE name = ANY(%(namespaces)s) ORDER BY id FOR NO KEY UPDATE
"""
NOT_DELETED = """
SELECT n.name, t.name, t.id FROM unnest(%(namespaces)s::text[], %(topics)s::text[]) AS wanted (namespace, topic)
JOIN namespace n ON n.name = wanted.namespace JOIN topic t ON t.namespace_id = n.id AND t.name = wanted.topic
LEFT JOIN topic_settings s ON s.topic_id = t.id WHERE s.deleted_at IS NULL
"""
COUNT_TOPICS = """
SELECT count(*) FROM topic t JOIN namespace n ON n.id = t.namespace_id LEFT JOIN topic_settings s ON s.topic_id = t.id
WHERE n.name = %(namespace)s AND s.deleted_at IS NULL
"""


async def find_topics(connection: AsyncConnection[Any], names: Iterable[Name]) -> dict[Name, int]:
    """Those that exist, or existed."""
    return _by_name(await (await connection.execute(FIND, _columns(names), prepare=False)).fetchall())


async def make_topics(
    connection: AsyncConnection[Any], names: Iterable[Name], *, with_namespaces: bool
) -> dict[Name, int]:
    """Makes those that do not exist yet, and those that were deleted; racing callers make each once. Sorted, so that
    they cannot lock crosswise. Answers all of them but those whose namespace is missing."""
    columns = _columns(sorted(names))
    if with_namespaces:
        await connection.execute(MAKE_NAMESPACES, columns, prepare=False)
        await connection.execute(REVIVE_NAMESPACES, columns, prepare=False)
    await connection.execute(MAKE_TOPICS, columns, prepare=False)
    await connection.execute(REVIVE_TOPICS, columns, prepare=False)
    return _by_name(await (await connection.execute(FIND_LIVE, columns, prepare=False)).fetchall())


async def exceeded(connection: AsyncConnection[Any], names: Iterable[Name], most: Mapping[str, int]) -> str | None:
    """A namespace that would have more topics than it may, if these were made. Until the transaction ends, nobody else
    makes topics in those that are limited, and asks here first."""
    limited = {name for name in names if name[0] in most}
    if not limited:
        return None
    namespaces = sorted({namespace for namespace, _ in limited})
    await connection.execute(LOCK_NAMESPACES, {"namespaces": namespaces})
    there = await connection.execute(NOT_DELETED, _columns(limited), prepare=False)
    new = limited - _by_name(await there.fetchall()).keys()
    for namespace, wanted in Counter(namespace for namespace, _ in new).items():
        row = await (await connection.execute(COUNT_TOPICS, {"namespace": namespace})).fetchone()
        if row and row[0] + wanted > most[namespace]:
            return namespace
    return None


def _by_name(rows: Iterable[tuple[str, str, int]]) -> dict[Name, int]:
    return {(namespace, topic): number for namespace, topic, number in rows}


def _columns(names: Iterable[Name]) -> dict[str, list[str]]:
    pairs = list(names)
    return {"namespaces": [namespace for namespace, _ in pairs], "topics": [topic for _, topic in pairs]}
