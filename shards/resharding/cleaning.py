"""Delete the rows of slots on a shard that does not own them: an earlier copy, or what has moved away. In portions, so
that nobody waits for it."""

from collections.abc import Callable, Iterator

from psycopg import sql

from shards.resharding.ends import End
from shards.resharding.tables import KEYS, TABLES, Table, belonging, partitions
from shards.sql import statement

PORTION = 5_000
Tell = Callable[[str], None]


def delete_rows(end: End, topics: "list[int]", tell: Tell = lambda _: None) -> int:
    """Rows, then names and counts of the topics. How many rows there were."""
    deleted = 0
    for table in TABLES:
        names = partitions(end.connection, table.name) if table.is_by_day else [table.name]
        for name in names:
            here = sum(_portions(end, table, name))
            if here:
                tell(f"deleted {here:,} rows of {name} on shard {end.number}")
            deleted += here
    with end.connection.transaction():
        end.connection.execute("LOCK TABLE tally IN SHARE ROW EXCLUSIVE MODE")
        end.connection.execute(statement("moving_forget_topics"), {"topics": topics})
    return deleted


def _portions(end: End, table: Table, name: str) -> Iterator[int]:
    """The keys are read once: to look for the next portion from the start would wade through those that are gone."""
    key = sql.SQL("namespace, key") if table is KEYS else sql.SQL("id")
    query = sql.SQL("SELECT {} FROM {} WHERE {}").format(key, sql.Identifier(name), belonging(table, end.slots))
    with end.connection.transaction(), end.connection.cursor("leaving") as reading:
        reading.execute(query)
        found = reading.fetchall()
    for start in range(0, len(found), PORTION):
        portion = found[start : start + PORTION]
        if table is KEYS:
            condition = sql.SQL("(namespace, key) IN (SELECT * FROM unnest(%s::text[], %s::text[]))")
            parameters = [[row[0] for row in portion], [row[1] for row in portion]]
        else:
            condition, parameters = sql.SQL("id = ANY(%s)"), [[row[0] for row in portion]]
        done = end.connection.execute(
            sql.SQL("DELETE FROM {} WHERE {}").format(sql.Identifier(name), condition), parameters
        )
        yield done.rowcount
