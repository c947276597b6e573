"""Copy what belongs to the slots in bulk, table by table and day by day, by COPY in binary.

Each part is one transaction of the target, which also notes that it is there: whoever goes on after a kill begins with
the first part that is missing. What changes meanwhile is noted by triggers, and copied again later.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import errors, sql

from shards.resharding.ends import End
from shards.resharding.record import MoverError
from shards.resharding.tables import KEYS, MESSAGES, TABLES, Connected, Table, belonging, columns, partitions
from shards.sql import statement

Tell = Callable[[str], None]
SEALED = "sealed"  # the constraint of a day that is over
LOGGED = ("message", "event")  # below every mark of those that count: the shard they leave has done it
Statement = sql.SQL | sql.Composed
COUNTED = {"delivery": statement("moving_count_waiting"), "dead_letter": statement("moving_count_dead")}


@contextmanager
def told_of_sealed_days() -> Iterator[None]:
    try:
        yield
    except errors.CheckViolation as error:
        if error.diag.constraint_name != SEALED:
            raise
        raise MoverError(
            f"{error.diag.table_name} is sealed on the target and takes no rows any more, so these slots cannot be "
            "moved there while such a day is in the log: `reshard undo`"
        ) from error


@told_of_sealed_days()
def copy_all(source: End, target: End, tell: Tell) -> None:
    make_partitions(source, target)
    done = {
        row[0]
        for row in target.connection.execute("SELECT part FROM moving_part WHERE move = %s", [target.move.number])
    }
    parts = list(_parts(source))
    for number, (table, part) in enumerate(parts, 1):
        if part in done:
            continue
        with target.as_mover() as connection:
            rows = pipe(source.connection, connection, table.name, _rows_of(source, table, part))
            if counting := COUNTED.get(table.name):
                connection.execute(counting, {"slots": source.slots})
            connection.execute("INSERT INTO moving_part VALUES (%s, %s, %s)", [target.move.number, part, rows])
        if rows:
            tell(f"copied {part}: {rows:,} rows (part {number} of {len(parts)})")


def make_partitions(source: End, target: End) -> None:
    for parent in (table.name for table in TABLES if table.is_by_day):
        for name in partitions(source.connection, parent):
            day = name.removeprefix(f"{parent}_")
            target.connection.execute("SELECT make_partition(%s, %s::date)", [parent, day])


def pipe(source: Connected, target: Connected, table: str, query: sql.Composed, into_table: str | None = None) -> int:
    """How many rows of the query on the source went into the table of the target."""
    names, more, values = columns(source, table), sql.SQL(""), sql.SQL("")
    if table in LOGGED:
        more, values = sql.SQL(", txid"), sql.SQL(", 0::bigint")
    out = sql.SQL("COPY (SELECT {}{} FROM {}) TO STDOUT (FORMAT binary)").format(names, values, query)
    into = sql.SQL("COPY {} ({}{}) FROM STDIN (FORMAT binary)").format(sql.Identifier(into_table or table), names, more)
    return pump(source, out, target, into)


def pump(source: Connected, out: Statement, target: Connected, into: Statement) -> int:
    """From one COPY into the other; how many rows."""
    with source.cursor() as reading, target.cursor() as writing:
        with reading.copy(out) as given, writing.copy(into) as taken:  # both end before the rows are counted
            for block in given:
                taken.write(block)
        return writing.rowcount


def copy_topics(source: End, target: End) -> None:
    """Names that the target knows are shown there, so they come last."""
    condition = sql.SQL("topic WHERE get_bit({}::text::bit(1024), slot_of(namespace, name)) = 1")
    _add(source, target, "topic", condition.format(sql.Literal(source.slots)))


@told_of_sealed_days()
def catch_up(source: End, target: End, most: int) -> int:
    """Copy again what was noted as changed, up to so many notes; how many there were. A note is dropped when what it
    says has been done, so that nothing is forgotten by whoever is killed in between."""
    notes = source.connection.execute(
        "SELECT seq, id, namespace FROM moving_change ORDER BY seq LIMIT %s", [most]
    ).fetchall()
    if not notes:
        return 0
    try:
        _copy_noted(source, target, notes)
    except errors.CheckViolation:  # a day has begun
        make_partitions(source, target)
        _copy_noted(source, target, notes)
    source.connection.execute("DELETE FROM moving_change WHERE seq = ANY(%s)", [[note[0] for note in notes]])
    return len(notes)


def _copy_noted(source: End, target: End, notes: list[tuple[Any, ...]]) -> None:
    """A note with an id alone is of a message, one without of a key, one with all of a topic."""
    ids = sorted({number for _, number, namespace in notes if namespace is None})
    noted = sql.SQL("moving_change WHERE seq = ANY({})").format(sql.Literal([note[0] for note in notes]))
    with target.as_mover() as connection:
        if ids:
            connection.execute(statement("moving_take_back"), {"ids": ids})
            by_id = sql.SQL("{} WHERE id = ANY({}) AND {}")
            for table in MESSAGES:
                rows = by_id.format(sql.Identifier(table.name), sql.Literal(ids), belonging(table, source.slots))
                if table.name in ("message", "keyed"):
                    _add(source, target, table.name, rows)
                else:
                    pipe(source.connection, connection, table.name, rows)
            connection.execute(statement("moving_count"), {"ids": ids})
        if all(namespace is None for _, _, namespace in notes):
            return  # messages alone, as a rule
        keys = sql.SQL("{} WHERE (namespace, key) IN (SELECT namespace, name FROM {} AND id IS NULL) AND {}").format(
            sql.Identifier(KEYS.name), noted, belonging(KEYS, source.slots)
        )
        _replace_keys(source, target, keys)
        topics = sql.SQL("topic WHERE id IN (SELECT id FROM {} AND namespace IS NOT NULL)").format(noted)
        _add(source, target, "topic", topics)


def _add(source: End, target: End, table: str, rows: sql.Composed) -> None:
    """What never changes: rows that are there already stay."""
    arriving = _arriving(target.connection, table)
    pipe(source.connection, target.connection, table, rows, arriving)
    names = columns(source.connection, table) + sql.SQL(", txid" if table in LOGGED else "")
    target.connection.execute(
        sql.SQL("INSERT INTO {} ({names}) SELECT {names} FROM {} ON CONFLICT DO NOTHING").format(
            sql.Identifier(table), sql.Identifier(arriving), names=names
        )
    )
    target.connection.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(arriving)))


def _replace_keys(source: End, target: End, rows: sql.Composed) -> None:
    arriving = _arriving(target.connection, KEYS.name)
    pipe(source.connection, target.connection, KEYS.name, rows, arriving)
    names = columns(source.connection, KEYS.name)
    target.connection.execute(
        sql.SQL(
            "INSERT INTO idempotency ({names}) SELECT {names} FROM {arriving} ON CONFLICT (namespace, key) DO UPDATE "
            "SET id = excluded.id, at = excluded.at, topic = excluded.topic, confirmed = excluded.confirmed"
        ).format(names=names, arriving=sql.Identifier(arriving))
    )
    target.connection.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(arriving)))


def _arriving(target: Connected, table: str) -> str:
    """A table of this session alone."""
    name = f"arriving_{table}"
    target.execute(
        sql.SQL("CREATE TEMPORARY TABLE IF NOT EXISTS {} (LIKE {} INCLUDING DEFAULTS)").format(
            sql.Identifier(name), sql.Identifier(table)
        )
    )
    return name


def _parts(source: End) -> Iterator[tuple[Table, str]]:
    for table in TABLES:
        if table.is_by_day:
            yield from ((table, part) for part in partitions(source.connection, table.name))
        else:
            yield table, table.name


def _rows_of(source: End, table: Table, part: str) -> sql.Composed:
    return sql.SQL("{} WHERE {}").format(sql.Identifier(part), belonging(table, source.slots))
