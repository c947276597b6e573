"""The triggers on the shard that slots leave: they note what changes, and refuse whoever comes too late.

Only rows of these slots cost anything beyond a look at one bit, and there are no triggers where no slot ever left. They
stay when the move is over: a process that slept through it must not write where nobody looks any more.
"""

import time
from dataclasses import dataclass

from psycopg import sql

from shards.resharding.ends import End, LockNotAvailable
from shards.resharding.record import MoverError
from shards.resharding.tables import mask

TRIES, REST_S = 100, 0.1
MAKE = sql.SQL(
    "CREATE OR REPLACE TRIGGER {name} BEFORE {on} ON {table} FOR EACH ROW WHEN ({condition}) "
    "EXECUTE FUNCTION watch_slot({kind})"
)
_WRITTEN = sql.SQL("INSERT OR UPDATE")
_OF_KEY = sql.SQL("get_bit({mask}, slot_of(NEW.namespace, NEW.key)) = 1")
_OF_NAME = sql.SQL("get_bit({mask}, slot_of(NEW.namespace, NEW.name)) = 1")
_OF_NEW = sql.SQL("get_bit({mask}, (NEW.id % 1024)::integer) = 1")
_OF_OLD = sql.SQL("get_bit({mask}, (OLD.id % 1024)::integer) = 1")


@dataclass(frozen=True, slots=True)
class Trigger:
    name: str
    table: str
    on: sql.SQL
    belongs: sql.SQL
    kind: str


# The log and the events are written by statements that write one of these, too.
TRIGGERS = (
    Trigger("watch_slot_written", "delivery", _WRITTEN, _OF_NEW, "message"),
    Trigger("watch_slot_deleted", "delivery", sql.SQL("DELETE"), _OF_OLD, "message"),
    Trigger("watch_slot_written", "dead_letter", _WRITTEN, _OF_NEW, "message"),
    Trigger("watch_slot_deleted", "dead_letter", sql.SQL("DELETE"), _OF_OLD, "message"),
    Trigger("watch_slot_written", "keyed", sql.SQL("INSERT"), _OF_NEW, "message"),
    Trigger("watch_slot_written", "idempotency", _WRITTEN, _OF_KEY, "key"),
    Trigger("watch_slot_written", "topic", sql.SQL("INSERT"), _OF_NAME, "topic"),
)


def watch(end: End) -> None:
    """Make the triggers such that they see the slots which leave, or have left; none where there are none. When this
    returns, no statement is under way that began before."""
    row = end.connection.execute("SELECT bit_or(slots)::text FROM moving WHERE state <> 'coming'").fetchone()
    slots = row[0] if row and row[0] and "1" in row[0] else None
    for trigger in TRIGGERS:
        _apply(end, trigger, slots)


def _apply(end: End, trigger: Trigger, slots: str | None) -> None:
    """Each table for itself, and for a moment only: writers queue behind the one who waits for the lock."""
    names = {"name": sql.Identifier(trigger.name), "table": sql.Identifier(trigger.table)}
    if slots is None:
        statement = sql.SQL("DROP TRIGGER IF EXISTS {name} ON {table}").format(**names)
    else:
        statement = MAKE.format(
            **names,
            on=trigger.on,
            condition=trigger.belongs.format(mask=mask(slots)),
            kind=sql.Literal(trigger.kind),
        )
    for _ in range(TRIES):
        try:
            with end.briefly():
                end.connection.execute(statement)
        except LockNotAvailable:
            time.sleep(REST_S)
        else:
            return
    raise MoverError(
        f"the table {trigger.table} of shard {end.number} is never free: end the transaction that holds it "
        "(pg_stat_activity), then `reshard resume`"
    )
