"""Rows of a frame as messages for POST /enqueue, each with an idempotency key that its row determines."""

import base64
import datetime
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from pipeline.errors import PipelineError

LONGEST_KEY, LONGEST_NAME = 255, 100
PLAIN = ("priority", "delay_ms", "ttl_ms", "max_retries", "traceparent")
JSON_TEXT = ("retry", "headers")  # or a struct, or a map
COLUMNS = {"topic", "body", "payload", "deliver_after", "idempotency_key", *PLAIN, *JSON_TEXT}
KNOWN = {"namespace", "topic", "name", "keycolumn", "url"}
OF_SPARK = {"path", "checkpointlocation", "queryname"}  # it hands over its own, too


@dataclass(frozen=True, slots=True)
class Sink:
    """Where rows go, and by which keys."""

    namespace: str
    topic: str | None  # None: the column has it
    name: str | None  # of the run, in its keys
    key_column: str | None
    url: str | None  # None: of the worker's own environment


def write_options(given: Mapping[str, str], columns: list[str]) -> Sink:
    options = {name.lower(): value for name, value in given.items()}
    if unknown := sorted(options.keys() - KNOWN - OF_SPARK):
        raise PipelineError(f"mqueue cannot be written with the options {', '.join(unknown)}")
    sink = Sink(
        options.get("namespace", ""), options.get("topic"), options.get("name"), options.get("keycolumn"),
        options.get("url"),
    )  # fmt: skip
    if not sink.namespace:
        raise PipelineError("mqueue needs the option namespace")
    if sink.topic is None and "topic" not in columns:
        raise PipelineError("mqueue needs the option topic, or a column of this name")
    if not {"body", "payload"} & set(columns):
        raise PipelineError("mqueue needs a column body, or payload")
    if sink.key_column is not None and sink.key_column not in columns:
        raise PipelineError(f"There is no column {sink.key_column!r} for keyColumn")
    if len(sink.name or "") > LONGEST_NAME:
        raise PipelineError(f"name may have {LONGEST_NAME} characters")
    if foreign := sorted(set(columns) - COLUMNS - {sink.key_column}):
        raise PipelineError(f"A message has no {', '.join(foreign)}: drop what is not to be sent")
    return sink


@dataclass
class Outgoing:
    """The messages of one task. `prefix` names the run and the batch, `task` the part of the batch."""

    sink: Sink
    prefix: str
    task: int
    _seen: Counter[str] = field(default_factory=Counter)

    def messages(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            message = as_message(row, self.sink)
            given = row.get("idempotency_key")
            yield msgspec.json.encode(
                message | {"idempotency_key": given if given is not None else self._key(row, message)}
            )

    def _key(self, row: dict[str, Any], message: dict[str, Any]) -> str:
        if self.sink.key_column is not None:
            value = row[self.sink.key_column]
            if value is None:
                raise PipelineError(f"{self.sink.key_column} is null, and cannot be a key")
            return shortened(f"{self.prefix}:{value}")
        # Not the row's number: a task that is tried again may get its rows in another order, and a row would then be
        # taken for another one.
        digest = hashlib.sha256(msgspec.json.encode(message)).hexdigest()[:32]
        self._seen[digest] += 1
        return shortened(f"{self.prefix}:{self.task}:{digest}:{self._seen[digest]}")


def shortened(key: str) -> str:
    if len(key) <= LONGEST_KEY and "\0" not in key:
        return key
    return key[:LONGEST_NAME].replace("\0", "") + ":" + hashlib.sha256(key.encode()).hexdigest()


def as_message(row: dict[str, Any], sink: Sink) -> dict[str, Any]:
    """Columns that are null are left to their defaults."""
    message: dict[str, Any] = {"namespace": sink.namespace, "topic": row.get("topic") or sink.topic}
    if row.get("body") is not None:
        message["body"] = _json(row["body"])
    elif row.get("payload") is not None:
        payload = row["payload"]
        message["payload"] = base64.b64encode(payload.encode() if isinstance(payload, str) else payload).decode()
    for name in PLAIN:
        if row.get(name) is not None:
            message[name] = row[name]
    for name in JSON_TEXT:
        if row.get(name) is not None:
            message[name] = _json(row[name])
    if (due := row.get("deliver_after")) is not None:
        if not isinstance(due, datetime.datetime) or due.tzinfo is None:
            raise PipelineError("deliver_after has to be a timestamp")
        message["deliver_after"] = due
    return message


def _json(value: Any) -> Any:
    """A string is JSON already, as the log has it and to_json() makes it; everything else becomes JSON."""
    return msgspec.Raw(value.encode()) if isinstance(value, str) else value
