"""Messages of the log as they are sent again."""

import base64
import datetime
import time
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from mqueue.core.messages import MAX_HEADERS
from pipeline.keys import keys
from shards.routing import slot_of

COUNT = "replay_count"
SPECIAL = ("headers", "retry", "ttl_ms", "max_retries", "traceparent", "deliver_after")


class Unsendable(Exception):
    """It was replayed as often as it may be, or has no room for the header that counts."""


def rendered(table: pa.Table, run: str, into: str | None, most_replays: int) -> list[bytes | None]:
    """Each message of one namespace as it is sent; None for those that cannot be."""
    rows = table.to_pylist()
    if not rows:
        return []
    slots = np.array([slot_of(row["namespace"], into or row["topic"]) for row in rows])
    names = keys(rows[0]["namespace"], run, table["id"].to_numpy(), slots)
    heads: dict[tuple[str, int], bytes] = {}
    return [_one(row, key, into, most_replays, heads) for row, key in zip(rows, names, strict=True)]


def _one(
    row: dict[str, Any], key: str, into: str | None, most_replays: int, heads: dict[tuple[str, int], bytes]
) -> bytes | None:
    """Most messages differ in their key and body alone."""
    if not row["is_json"] or most_replays < 1 or any(row[name] is not None for name in SPECIAL):
        try:
            return as_sent(row, key, into, most_replays)
        except Unsendable:
            return None
    kind = row["topic"], row["priority"]
    if kind not in heads:
        plain = as_sent(row | {"payload": b"0"}, "", into, most_replays)
        heads[kind] = plain.removesuffix(b'"","body":0}')
    return b'%b"%b","body":%b}' % (heads[kind], key.encode(), row["payload"])


def as_sent(row: Any, key: str, into: str | None, most_replays: int) -> bytes:
    headers = msgspec.json.decode(row["headers"]) if row["headers"] else {}
    before = headers.get(COUNT, "0")
    count = int(before) if before.isdigit() else 0
    if count >= most_replays or (COUNT not in headers and len(headers) >= MAX_HEADERS):
        raise Unsendable
    message: dict[str, Any] = {
        "namespace": row["namespace"],
        "topic": into or row["topic"],
        "priority": row["priority"],
        "headers": headers | {COUNT: str(count + 1)},
        "idempotency_key": key,
    }
    payload = bytes(row["payload"])
    if row["is_json"]:
        message["body"] = msgspec.Raw(payload)
    else:
        message["payload"] = base64.b64encode(payload).decode()
    if row["retry"]:
        message["retry"] = msgspec.Raw(row["retry"].encode())
    for name in ("ttl_ms", "max_retries", "traceparent"):
        if row[name] is not None:
            message[name] = row[name]
    if row["deliver_after"] is not None and row["deliver_after"].timestamp() > time.time():
        message["deliver_after"] = row["deliver_after"].astimezone(datetime.UTC)
    return msgspec.json.encode(message)
