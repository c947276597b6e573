"""What belongs to a slot, and how to find it in each table."""

from dataclasses import dataclass
from typing import Any

from psycopg import Connection, sql

from shards.routing import SLOTS

Connected = Connection[tuple[Any, ...]]
BY_ID = sql.SQL("get_bit({mask}, (id % 1024)::integer) = 1")
BY_KEY = sql.SQL("get_bit({mask}, slot_of(namespace, key)) = 1")
BY_NAME = sql.SQL("get_bit({mask}, slot_of(namespace, name)) = 1")


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    belongs: sql.SQL  # the condition on its rows
    is_by_day: bool = False  # partitioned


MESSAGES = (  # in the order in which they are copied; the queue last, since it changes most
    Table("message", BY_ID, is_by_day=True),
    Table("event", BY_ID, is_by_day=True),
    Table("keyed", BY_ID),
    Table("dead_letter", BY_ID),
    Table("delivery", BY_ID),
)
KEYS = Table("idempotency", BY_KEY)
TABLES = (*MESSAGES, KEYS)
OF_EACH_SHARD = ("txid",)  # columns whose values mean nothing elsewhere


def mask_of(slots: "frozenset[int] | set[int] | list[int] | tuple[int, ...]") -> str:
    """As the column `slots` of the table `moving` has it: the first bit is slot 0."""
    chosen = set(slots)
    return "".join("1" if slot in chosen else "0" for slot in range(SLOTS))


def mask(text: str) -> sql.Composed:
    return sql.SQL("B{}").format(sql.Literal(text))


def belonging(table: Table, slots: str) -> sql.Composed:
    return table.belongs.format(mask=mask(slots))


def columns(connection: Connected, table: str) -> sql.Composed:
    """All of a table that are the same on every shard, so that a column which is added later is copied, too."""
    rows = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped "
        "AND attname <> ALL(%s) ORDER BY attnum",
        [table, list(OF_EACH_SHARD)],
    ).fetchall()
    return sql.SQL(", ").join(sql.Identifier(row[0]) for row in rows)


def partitions(connection: Connected, parent: str) -> list[str]:
    rows = connection.execute(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "WHERE i.inhparent = to_regclass(%s) ORDER BY 1",
        [parent],
    ).fetchall()
    return [row[0] for row in rows]
