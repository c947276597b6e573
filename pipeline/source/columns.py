"""The columns that a read has: those of the lake, and some that are computed. The user's schema chooses from them."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mqueue.engine.archived import KINDS
from pipeline.chunks import Names
from pipeline.errors import PipelineError
from pipeline.layout import TYPES, Layout

MADE_OF = {"namespace": (), "topic": (), "shard": (), "body": ("is_json", "payload"), "event": ("kind",)}
COMPUTED = {"message": {"shard": pa.int32(), "body": pa.string()}, "event": {"shard": pa.int32(), "event": pa.string()}}


def full_schema(layout: Layout) -> pa.Schema:
    more = [pa.field(name, kind) for name, kind in COMPUTED[layout.parent].items()]
    return pa.schema([*layout.schema, *more])


def ddl(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {TYPES[str(field.type)]}" for field in schema)


def check_schema(layout: Layout, asked: pa.Schema) -> None:
    """Types are as they are: whoever wants others casts in Spark."""
    known = full_schema(layout)
    for field in asked:
        if field.name not in known.names:
            raise PipelineError(f"The log has no column {field.name!r}, but {', '.join(known.names)}")
        if field.type != known.field(field.name).type:
            raise PipelineError(f"The column {field.name} is {TYPES[str(known.field(field.name).type)]}")


def stored(layout: Layout, names: list[str]) -> list[str]:
    """The columns of a shard or a file that these are made of."""
    found = {one for name in names for one in MADE_OF.get(name, (name,))}
    return [name for name in layout.pulled.names if name in found]


def computed(table: pa.Table, shard: int, names: Names, schema: pa.Schema) -> pa.Table:
    """The schema's columns, of the rows of a shard or a file."""
    columns = {name: _column(name, table, shard, names) for name in schema.names}
    return pa.table(columns).cast(schema)


def _column(name: str, table: pa.Table, shard: int, names: Names) -> Any:
    if name in ("namespace", "topic"):
        numbers = sorted(names)
        words = pa.array([names[number][name == "topic"] for number in numbers], pa.string())
        return words.take(pc.index_in(table["topic_id"], pa.array(numbers, pa.int32())))
    if name == "shard":
        return pa.repeat(pa.scalar(shard, pa.int32()), table.num_rows)
    if name == "body":
        texts = pc.if_else(table["is_json"], table["payload"], pa.scalar(None, pa.binary()))
        return texts.cast(pa.string())
    if name == "event":
        return pa.array(KINDS, pa.string()).take(pc.subtract(table["kind"], 1).cast(pa.int32()))
    return table[name]
