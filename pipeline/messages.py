"""Messages of the log as they are sent again."""

import base64
import datetime
import time
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqueue.core.messages import MAX_HEADERS
from pipeline.keys import Numbers, keys
from shards.routing import slot_of

COUNT = "replay_count"
SPECIAL = ("headers", "retry", "ttl_ms", "max_retries", "traceparent", "deliver_after")


class Unsendable(Exception):
    """It was replayed as often as it may be, or has no room for the header that counts."""


def slots_of(table: pa.Table, into: str | None) -> Numbers:
    """Of the topics that messages of one namespace go to."""
    topics = table["topic"].combine_chunks().dictionary_encode()
    namespace = table["namespace"][0].as_py() if table.num_rows else ""
    slots = np.array([slot_of(namespace, into or name) for name in topics.dictionary.to_pylist()], np.int64)
    found: Numbers = slots[topics.indices.to_numpy()]
    return found


def rendered(table: pa.Table, slots: Numbers, run: str, into: str | None, most_replays: int) -> pa.Array:
    """Each message of one namespace as it is sent; null for those that cannot be."""
    if not table.num_rows:
        return pa.array([], pa.binary())
    names = keys(table["namespace"][0].as_py(), run, table["id"].to_numpy(), slots)
    lines = _usual(table, names, into)
    special = np.flatnonzero(~_is_usual(table, most_replays))
    if len(special):
        rows = zip(table.take(pa.array(special)).to_pylist(), special.tolist(), strict=True)
        others = pa.array(
            [_unless_unsendable(row, names[place].as_py().decode(), into, most_replays) for row, place in rows],
            pa.binary(),
        )
        is_special = np.zeros(table.num_rows, bool)
        is_special[special] = True
        lines = pc.replace_with_mask(lines, pa.array(is_special), others)
    return lines


def _is_usual(table: pa.Table, most_replays: int) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Most messages differ from others of their topic and priority in key and body alone."""
    found: np.ndarray[Any, np.dtype[np.bool_]] = table["is_json"].to_numpy() & (most_replays >= 1)
    for name in SPECIAL:
        if table[name].null_count < table.num_rows:
            found &= table[name].is_null().to_numpy()
    return found


def _usual(table: pa.Table, names: pa.Array, into: str | None) -> pa.Array:
    """All of them, as if they were usual."""
    kinds = table["topic_id"].to_numpy().astype(np.int64) << 16 | table["priority"].to_numpy()
    _, firsts, of_row = np.unique(kinds, return_index=True, return_inverse=True)
    heads = []
    for row in table.take(pa.array(firsts)).to_pylist():
        usual = row | dict.fromkeys(SPECIAL) | {"is_json": True, "payload": b"0"}
        heads.append(as_sent(usual, "", into, 1).removesuffix(b'","body":0}'))
    parts = [pa.array(heads, pa.binary()).take(pa.array(of_row)), names, b'","body":']
    return pc.binary_join_element_wise(*parts, table["payload"].combine_chunks(), b"}", b"")


def _unless_unsendable(row: dict[str, Any], key: str, into: str | None, most_replays: int) -> bytes | None:
    try:
        return as_sent(row, key, into, most_replays)
    except Unsendable:
        return None


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
