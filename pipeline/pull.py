"""Rows of a shard's log as Arrow, by ADBC: PostgreSQL's own COPY format, decoded in C++."""

import contextlib
import datetime
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from mqueue.core.conf import conf
from mqueue.core.linux import give_way, step_apart
from pipeline.layout import Layout
from shards.sql import statement

BACKEND = "SELECT pg_backend_pid(), inet_server_addr() IS NULL"


def pull(
    layout: Layout,
    shard: int,
    day: datetime.date,
    low: int,
    high: int,
    columns: Sequence[str] = (),
    kinds: Sequence[int] = (),
    topics: Sequence[int] | None = None,
) -> pa.Table:
    """The rows of a day in a range of ids, or some of their columns, events of some kinds, or of some topics: what is
    not wanted is not fetched. Which server, each worker knows from its own environment."""
    query = statement(f"pull_{layout.parent}") % {"day": day.isoformat(), "low": int(low), "high": int(high)}
    schema = pa.schema([layout.pulled.field(name) for name in columns or layout.pulled.names])
    wanted = [_is_one_of("kind", kinds)] if kinds else []
    if topics is not None:
        wanted.append(_is_one_of("topic_id", topics))
    if columns or wanted:
        query = f"SELECT {', '.join(schema.names)} FROM ({query}) AS log"  # noqa: S608
    if wanted:
        query += f" WHERE {' AND '.join(wanted)}"
    return pull_query(shard, query).cast(schema)


def pull_query(shard: int, query: str) -> pa.Table:
    import adbc_driver_postgresql.dbapi as adbc  # a quarter of a second that a run's driver need not spend

    with adbc.connect(conf().shard_urls[shard]) as connection, connection.cursor() as cursor:
        cursor.execute("SET timezone = 'UTC'")
        cursor.execute(BACKEND)
        make_way(*cursor.fetchone())
        cursor.execute(query)
        return cursor.fetch_arrow_table()


def _is_one_of(column: str, values: Sequence[int]) -> str:
    return f"{column} = ANY ('{{{','.join(str(int(value)) for value in values)}}}')"


def make_way(backend: int, is_local: bool) -> None:
    """Our session's process steps aside for those of live traffic, too, if it is on this machine and ours."""
    with contextlib.suppress(OSError):
        if is_local and Path(f"/proc/{backend}/comm").read_text() == "postgres\n":
            give_way(backend)
            step_apart(backend)
