"""Rows of a shard's log as Arrow, by ADBC: PostgreSQL's own COPY format, decoded in C++."""

import datetime

import pyarrow as pa

from mqueue.core.conf import conf
from pipeline.layout import Layout
from shards.sql import statement


def pull(
    layout: Layout, shard: int, day: datetime.date, low: int, high: int, columns: list[str] | None = None
) -> pa.Table:
    """The rows of a day in a range of ids, or some of their columns: what is not wanted is not fetched. Which server,
    each worker knows from its own environment."""
    query = statement(f"pull_{layout.parent}") % {"day": day.isoformat(), "low": int(low), "high": int(high)}
    if columns is None:
        return pull_query(shard, query).cast(layout.pulled)
    schema = pa.schema([layout.pulled.field(name) for name in columns])
    return pull_query(shard, f"SELECT {', '.join(columns)} FROM ({query}) AS log").cast(schema)  # noqa: S608


def pull_query(shard: int, query: str) -> pa.Table:
    import adbc_driver_postgresql.dbapi as adbc  # a quarter of a second that a run's driver need not spend

    with adbc.connect(conf().shard_urls[shard]) as connection, connection.cursor() as cursor:
        cursor.execute("SET timezone = 'UTC'")
        cursor.execute(query)
        return cursor.fetch_arrow_table()
