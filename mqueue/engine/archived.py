"""What the lake's rows and the shard's together say of a message."""

import datetime
from typing import Any

from mqueue.engine.history import Rows

KINDS = (
    "published", "delivered", "redelivered", "nacked", "lapsed", "released", "moved", "acked", "dead", "replayed",
    "cancelled", "deleted",
)  # fmt: skip
ENDS = ("acked", "cancelled", "deleted")
FRESH = datetime.timedelta(days=2)  # no day leaves a shard sooner


def is_whole(rows: list[Any]) -> bool:
    """Whether the shard's trace of a message cannot lack anything: it begins with the enqueue, and that is young."""
    if not rows or rows[0][0] != "published":
        return False
    return bool(datetime.datetime.now(datetime.UTC) - rows[0][1] < FRESH)


def events_of(archived: Rows, live: list[Any]) -> list[Any]:
    """Rows as trace.sql answers them; what both have, once."""
    messages = archived.get("message", [])
    rows = [("published", one["enqueued_at"], 0, one["producer"], None) for one in messages]
    rows += [
        (KINDS[one["kind"] - 1], one["at"], one["attempt"], one["consumer"], one["detail"])
        for one in archived.get("event", [])
    ]
    return sorted({*rows, *map(tuple, live)}, key=lambda row: (row[1], KINDS.index(row[0])))


def settled_row(archived: Rows, live: list[Any]) -> Any:
    """A row as look.sql answers it, of a message that is over; None where there is none, or it was deleted."""
    messages = archived.get("message", [])
    events = events_of(archived, live)
    ends = [event for event in events if event[0] in ENDS]
    if not messages or not ends or ends[-1][0] == "deleted" or events[-1][0] == "replayed":
        return None
    one, (state, _, attempt, _, _) = messages[-1], ends[-1]
    return (
        one["id"], state, one["priority"], one["is_json"], one["payload"], one["headers"], one["traceparent"], attempt,
        one["max_retries"], one["enqueued_at"], one["deliver_after"], None, None, None, one["idempotency_key"],
        None, None, None,
    )  # fmt: skip
