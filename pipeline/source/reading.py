"""Rows of the log as batches that Spark takes, in its tasks: like all code of tasks it knows no Django."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, field

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql.datasource import InputPartition

from mqueue.core.conf import conf
from pipeline.chunks import CHUNKS_OF, Names
from pipeline.errors import PipelineError
from pipeline.layout import LAYOUTS, Layout
from pipeline.pieces import Piece
from pipeline.source.columns import computed, stored
from pipeline.source.filters import Comparison
from shards.lake import open_lake
from shards.sql import statement

ALL_IDS = 1 << 62
TIME_OF = {"message": "enqueued_at", "event": "at"}
ORDER = {"message": ("txid", "id"), "event": ("txid", "id", "epoch", "at", "kind")}


@dataclass(frozen=True, slots=True)
class Rows:
    """What all tasks of a read do: which columns, and which rows of those that a part has."""

    parent: str
    schema: pa.Schema
    lake: str
    first: datetime.datetime
    last: datetime.datetime
    comparisons: tuple[Comparison, ...] = ()

    @property
    def layout(self) -> Layout:
        return LAYOUTS[self.parent]


@dataclass
class Part(InputPartition):
    """The rows with a txid from `low` on and below `high`, of topics, that lie in these places of one shard; of each of
    its places, the share `number` of `count`. Those in order are the same wherever they lie by now."""

    shard: int
    low: int
    high: int
    names: Names
    places: list[Piece]
    number: int = 0
    count: int = 1
    in_order: bool = False
    value: None = field(default=None, repr=False)


def read(rows: Rows, part: Part) -> Iterator[pa.RecordBatch]:
    if part.in_order:
        if found := [one for place in part.places for one in tables(rows, part, place)]:
            table = pa.concat_tables(found).sort_by([(name, "ascending") for name in ORDER[rows.parent]])
            yield from batches(rows, part, table)
        return
    for place in part.places:
        for table in tables(rows, part, place):
            yield from batches(rows, part, table)


def batches(rows: Rows, part: Part, table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from computed(table, part.shard, part.names, rows.schema).to_batches(max_chunksize=CHUNKS_OF)


def tables(rows: Rows, part: Part, place: Piece) -> Iterator[pa.Table]:
    """In the shape of the log itself, with the columns that are needed."""
    wanted = stored(rows.layout, [*rows.schema.names, "topic_id", *(ORDER[rows.parent] if part.in_order else ())])
    schema = pa.schema([rows.layout.pulled.field(name) for name in wanted])
    if place.path:
        yield from of_file(rows, part, place, schema)
    else:
        yield of_shard(rows, part, place, schema)


def of_file(rows: Rows, part: Part, place: Piece, schema: pa.Schema) -> Iterator[pa.Table]:
    system, root = open_lake(rows.lake)
    fragment = ds.ParquetFileFormat().make_fragment(f"{root}/{place.path}", system)
    groups = range(fragment.num_row_groups)
    mine = groups[len(groups) * part.number // part.count : len(groups) * (part.number + 1) // part.count]
    if not mine:
        return
    chosen = fragment.subset(row_group_ids=list(mine))
    for batch in chosen.to_batches(columns=schema.names, filter=condition(rows, part), batch_size=CHUNKS_OF):
        yield pa.Table.from_batches([batch]).cast(schema)


def condition(rows: Rows, part: Part) -> ds.Expression:
    time = ds.field(TIME_OF[rows.parent])
    found = (ds.field("txid") >= part.low) & (ds.field("txid") < part.high)
    found &= ds.field("topic_id").isin(pa.array(sorted(part.names), pa.int32()))
    found &= (time >= _instant(rows.first)) & (time < _instant(rows.last))
    for test in rows.comparisons:
        found &= test.of_arrow()
    return found


def _instant(moment: datetime.datetime) -> pa.Scalar:
    return pa.scalar(moment, pa.timestamp("us", tz="UTC"))


def of_shard(rows: Rows, part: Part, place: Piece, schema: pa.Schema) -> pa.Table:
    """Of a day that is still there when it has been read: one that is dropped meanwhile would look empty."""
    ids = {"day": place.day.isoformat(), "low": place.low, "high": place.high or ALL_IDS}
    log = statement(f"pull_{rows.parent}") % ids
    query = f"SELECT {', '.join(schema.names)} FROM ({log}) AS log WHERE {sql_condition(rows, part)}"  # noqa: S608
    name = f"{rows.parent}_{place.day:%Y%m%d}"
    with adbc.connect(conf().shard_urls[part.shard], autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET timezone = 'UTC'")
        cursor.execute(query)
        table = cursor.fetch_arrow_table().cast(schema)
        cursor.execute(statement("is_attached") % {"name": name})
        if not cursor.fetchone()[0]:
            raise PipelineError(f"{name} has left shard {part.shard} while it was read: read again")
    return table


def sql_condition(rows: Rows, part: Part) -> str:
    """Numbers and times of our own, as literals: COPY takes none else."""
    time = TIME_OF[rows.parent]
    topics = ", ".join(str(int(number)) for number in sorted(part.names))
    conditions = [
        f"txid >= {int(part.low)} AND txid < {int(part.high)} AND topic_id IN ({topics})",
        f"{time} >= timestamptz '{rows.first.isoformat()}' AND {time} < timestamptz '{rows.last.isoformat()}'",
        *(test.of_sql() for test in rows.comparisons),
    ]
    return " AND ".join(conditions)
