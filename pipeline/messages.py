"""A message of the log as it is sent again."""

import base64
import datetime
import time
from typing import Any

import msgspec

from mqueue.core.messages import MAX_HEADERS

COUNT = "replay_count"


class Unsendable(Exception):
    """It was replayed as often as it may be, or has no room for the header that counts."""


def as_sent(row: Any, run: str, into: str | None, most_replays: int) -> bytes:
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
        "idempotency_key": f"replay:{run}:{row['id']}",
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
    if row["deliver_after_us"] is not None and row["deliver_after_us"] > time.time() * 1_000_000:
        message["deliver_after"] = datetime.datetime.fromtimestamp(row["deliver_after_us"] / 1_000_000, datetime.UTC)
    return msgspec.json.encode(message)
