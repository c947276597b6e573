"""One story in examples: a mail is enqueued, leased, and settled in one way or another."""

from typing import Any

Json = dict[str, Any]
PLACE: Json = {"namespace": "acme", "topic": "emails"}
ID = 268436515
EXAMPLE: Json = PLACE | {"body": {"to": "ada@example.com"}}
LEASED: Json = {"id": ID} | PLACE | {"receipt": "AAAAABAABCMAAAAB"}
ENQUEUED_AT = "2026-11-18T13:19:37.769060Z"
LATER = "2026-11-18T13:20:07.777465Z"
STORED: Json = {"id": ID, **PLACE, "priority": 5, "headers": {}, "enqueued_at": ENQUEUED_AT, "body": EXAMPLE["body"]}

DELIVERED: Json = STORED | {
    "attempt": 1,
    "max_retries": 3,
    "deliver_after": None,
    "lease_expires_at": LATER,
    "receipt": LEASED["receipt"],
}
DEAD: Json = STORED | {"attempts": 4, "error": "smtp: 550", "reason": "max_retries", "died_at": LATER}
LOOKED: Json = STORED | {
    "state": "ready",
    "attempts": 0,
    "max_retries": 3,
    "deliver_after": None,
    "due": ENQUEUED_AT,
    "lease_expires_at": None,
    "expires_at": None,
    "idempotency_key": None,
}
EVENTS: Json = {
    "events": [
        {"event": "published", "at": ENQUEUED_AT, "attempt": 0, "consumer": "shop", "detail": None},
        {"event": "delivered", "at": LATER, "attempt": 1, "consumer": "mailer", "detail": None},
    ]
}
STATS: Json = {
    "topics": [PLACE | {"ready": 2, "scheduled": 1, "leased": 0, "dead": 0, "oldest_ready_age_ms": 42}],
}
HEALTH: Json = {
    "status": "degraded",
    "version": "0.1.0",
    "uptime": 86.4,
    "uptime_ms": 86_412,
    "control": {"status": "OK"},
    "shards": [{"shard": 0, "status": "OK"}, {"shard": 1, "status": "down", "detail": "the connection was lost"}],
    "redis": {"status": "OK"},
    "wal": {"status": "OK"},
}
