"""What rows of the two logs look like in the lake, and which of their columns a digest covers, in which order."""

from dataclasses import dataclass

import pyarrow as pa

TIME = pa.timestamp("us", tz="UTC")
TYPES = {"int64": "long", "int32": "int", "int16": "short", "bool": "boolean", "date32[day]": "date",
         "string": "string", "binary": "binary", "timestamp[us, tz=UTC]": "timestamp"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layout:
    """`numbers` are columns of eight bytes or less, `texts` the others, as shards/sql/measure_*.sql takes them."""

    parent: str
    numbers: tuple[tuple[str, pa.DataType], ...]
    texts: tuple[tuple[str, pa.DataType], ...]
    bytes_of: str  # the column whose bytes are counted
    then_by: tuple[str, ...]

    @property
    def pulled(self) -> pa.Schema:
        """As a shard gives it."""
        return pa.schema([*self.numbers, *self.texts])

    @property
    def schema(self) -> pa.Schema:
        """As a file has it."""
        return pa.schema([("namespace", pa.string()), ("topic", pa.string()), *self.numbers, *self.texts])

    @property
    def columns_of_shard(self) -> set[str]:
        return {"topic" if name == "topic_id" else name for name in self.pulled.names}


MESSAGE = Layout(
    parent="message",
    numbers=(
        ("id", pa.int64()),
        ("txid", pa.int64()),
        ("enqueued_at", TIME),
        ("deliver_after", TIME),
        ("ttl_ms", pa.int64()),
        ("topic_id", pa.int32()),
        ("day", pa.date32()),
        ("payload_bytes", pa.int32()),
        ("max_retries", pa.int16()),
        ("priority", pa.int16()),
        ("is_json", pa.bool_()),
    ),
    texts=(
        ("headers", pa.string()),
        ("retry", pa.string()),
        ("traceparent", pa.string()),
        ("producer", pa.string()),
        ("idempotency_key", pa.string()),
        ("ordering_key", pa.string()),
        ("concurrency_key", pa.string()),
        ("payload", pa.binary()),
    ),
    bytes_of="payload",
    then_by=("id",),
)
EVENT = Layout(
    parent="event",
    numbers=(
        ("id", pa.int64()),
        ("txid", pa.int64()),
        ("at", TIME),
        ("topic_id", pa.int32()),
        ("epoch", pa.int32()),
        ("attempt", pa.int16()),
        ("kind", pa.int16()),
        ("due", TIME),
    ),
    texts=(("consumer", pa.string()), ("detail", pa.string())),
    bytes_of="detail",
    then_by=("id", "at"),
)
LAYOUTS = {layout.parent: layout for layout in (MESSAGE, EVENT)}
