"""Many dead letters, put where `fail.sql` would put them: the same rows, with their counts."""

import json
from typing import Any

import psycopg

ADD = """
INSERT INTO dead_letter (id, died_at, enqueued_at, topic, day, epoch, payload_bytes, attempts, priority, is_json,
                         payload, headers, error, reason)
SELECT (%(first)s::bigint + n) * 1024 + %(slot)s, now() - n * interval '1 second', now() - interval '1 day', %(topic)s,
       current_date, 1, length(%(payload)s::bytea), %(attempts)s, 5, %(is_json)s, %(payload)s::bytea,
       %(headers)s::jsonb, %(error)s, %(reason)s
FROM generate_series(0, %(count)s::integer - 1) n
"""
COUNT = "INSERT INTO tally_delta VALUES (%(topic)s, 0, 0, 0, %(count)s)"


def bury(
    shard: "psycopg.Connection[Any]",
    topic: int,
    slot: int,
    count: int,
    *,
    first: int = 1 << 30,
    body: Any = 1,
    payload: bytes | None = None,
    headers: dict[str, str] | None = None,
    error: str | None = "no such customer",
    reason: str = "rejected",
    attempts: int = 1,
) -> None:
    """One died every second until now; ids ascend into the past."""
    fields = {
        "first": first,
        "slot": slot,
        "topic": topic,
        "count": count,
        "payload": json.dumps(body).encode() if payload is None else payload,
        "is_json": payload is None,
        "headers": json.dumps(headers) if headers else None,
        "error": error,
        "reason": reason,
        "attempts": attempts,
    }
    shard.execute(ADD, fields)
    shard.execute(COUNT, fields)
