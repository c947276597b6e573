"""Compare both sides slot by slot, by counts and checksums, while traffic flows: what has changed since it was copied
is noted, and left out on both sides; all the rest has to be the same."""

from typing import Any

from psycopg import IsolationLevel, sql

from shards.resharding.copying import pump
from shards.resharding.ends import End
from shards.resharding.record import MoverError
from shards.resharding.tables import KEYS, TABLES, Connected, Table, belonging, columns

Sums = dict[int, tuple[int, int]]  # by slot: rows, and the sum of their hashes
OF_ID = sql.SQL("id % 1024")
OF_KEY = sql.SQL("slot_of(namespace, key)")
SAME_ID = sql.SQL("c.namespace IS NULL AND c.id = x.id")
SAME_KEY = sql.SQL("c.id IS NULL AND (c.namespace, c.name) = (x.namespace, x.key)")


def compare(source: End, target: End) -> int:
    """How many rows were compared. Raises where any differ."""
    compared = 0
    source.connection.isolation_level = IsolationLevel.REPEATABLE_READ
    try:
        with source.connection.transaction():
            _note_changed(source, target)
            for table in TABLES:
                here = _sums(source.connection, source, table, "moving_change")
                there = _sums(target.connection, source, table, "changed_meanwhile")
                if here != there:
                    raise MoverError(_difference(table, here, there))
                compared += sum(rows for rows, _ in here.values())
    finally:
        source.connection.isolation_level = None
    return compared


def _note_changed(source: End, target: End) -> None:
    """By the very snapshot in which the source is read."""
    target.connection.execute("DROP TABLE IF EXISTS pg_temp.changed_meanwhile")
    target.connection.execute("CREATE TEMPORARY TABLE changed_meanwhile (id bigint, namespace text, name text)")
    changes = sql.SQL("COPY (SELECT id, namespace, name FROM moving_change) TO STDOUT (FORMAT binary)")
    into = sql.SQL("COPY changed_meanwhile FROM STDIN (FORMAT binary)")
    pump(source.connection, changes, target.connection, into)
    target.connection.execute("ANALYZE changed_meanwhile")


def _sums(connection: Connected, source: End, table: Table, changed: str) -> Sums:
    names, is_key = columns(connection, table.name), table is KEYS
    query = sql.SQL(
        "SELECT {slot}, count(*), sum(hash_record_extended(ROW({names}), 0)::numeric) FROM {table} x "
        "WHERE {belongs} AND NOT EXISTS (SELECT FROM {changed} c WHERE {same}) GROUP BY 1"
    ).format(
        same=SAME_KEY if is_key else SAME_ID,
        slot=OF_KEY if is_key else OF_ID,
        names=names,
        table=sql.Identifier(table.name),
        belongs=belonging(table, source.slots),
        changed=sql.Identifier(changed),
    )
    rows: list[Any] = connection.execute(query).fetchall()
    return {int(slot): (count, int(total)) for slot, count, total in rows}


def _difference(table: Table, here: Sums, there: Sums) -> str:
    slots = [slot for slot in sorted(here.keys() | there.keys()) if here.get(slot) != there.get(slot)]
    first = slots[0]
    counts = f"{here.get(first, (0, 0))[0]:,} rows on the source and {there.get(first, (0, 0))[0]:,} on the target"
    return (
        f"{table.name} differs in {len(slots)} slots, such as {first}: {counts}. "
        "Nothing was switched: `reshard undo` drops the copy"
    )
