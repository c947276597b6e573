"""Rows of a shard's log as Arrow, by ADBC: PostgreSQL's own COPY format, decoded in C++."""

import datetime

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

from mqueue.core.conf import conf
from pipeline.layout import Layout
from shards.sql import statement


def pull(layout: Layout, shard: int, day: datetime.date, low: int, high: int) -> pa.Table:
    """The rows of a day in a range of ids. Which server, each worker knows from its own environment."""
    query = statement(f"pull_{layout.parent}") % {"day": day.isoformat(), "low": int(low), "high": int(high)}
    return pull_query(shard, query).cast(layout.pulled)


def pull_query(shard: int, query: str) -> pa.Table:
    with adbc.connect(conf().shard_urls[shard]) as connection, connection.cursor() as cursor:
        cursor.execute("SET timezone = 'UTC'")
        cursor.execute(query)
        return cursor.fetch_arrow_table()
