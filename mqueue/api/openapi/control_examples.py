"""One story in examples: a namespace for mail, its topic, its mailer's key, and who looks after it."""

from typing import Any

Json = dict[str, Any]
AT = "2026-11-18T13:19:37.769060Z"
NAMESPACE: Json = {"name": "acme", "description": "Mail", "created_at": AT}
TOPIC_CHANGE: Json = {
    "visibility_ms": 60_000,
    "max_retries": 5,
    "retry": {"strategy": "exponential", "base_ms": 500},
    "rate": {"capacity": 100, "refill_per_s": 20},
}
TOPIC: Json = {
    "namespace": "acme",
    "name": "emails",
    "visibility_ms": 60_000,
    "max_retries": 5,
    "retry": {"strategy": "exponential", "base_ms": 500, "max_ms": 3_600_000, "jitter": 0.25},
    "retention_days": 7,
    "durability": "commit",
    "paused": False,
    "rate": {"capacity": 100, "refill_per_s": 20.0},
    "tracing": True,
    "created_at": AT,
}
KEY: Json = {
    "kid": "3f1c9a5b7d204e68",
    "name": "mailer",
    "kind": "api_key",
    "scopes": ["dequeue"],
    "created_at": AT,
    "created_by": "ada",
    "expires_at": None,
    "revoked_at": None,
    "last_used_at": None,
    "prefix": "mq_3f1c9a5b7d204e68_",
}
MADE_KEY: Json = KEY | {"secret": "mq_3f1c9a5b7d204e68_…"}
QUOTAS: Json = {
    "messages_per_minute": 60_000,
    "bytes_per_minute": None,
    "max_stored": None,
    "max_in_flight": 1000,
    "max_topics": None,
    "weight": None,
}
MEMBER: Json = {"user": "ada", "role": "operator", "created_at": AT}
AUDIT: Json = {
    "id": 17,
    "at": AT,
    "actor": "ada",
    "via": "session",
    "action": "key.revoke",
    "namespace": "acme",
    "target": "3f1c9a5b7d204e68",
    "before": KEY,
    "after": KEY | {"revoked_at": AT},
}
JOB_REQUEST: Json = {"kind": "replay", "filter": {"topic": "emails", "error": "timeout"}, "rate_per_s": 200}
JOB: Json = {
    "id": 17,
    "kind": "replay",
    "topic": None,
    "filter": {"topic": "emails", "error": "timeout"},
    "dead": False,
    "dry_run": False,
    "rate_per_s": 200,
    "max": None,
    "state": "running",
    "total": 48_000,
    "searched": 12_000,
    "matched": 9_500,
    "done": 9_500,
    "progress": 0.25,
    "error": None,
    "hint": None,
    "created_by": "ada",
    "via": "session",
    "created_at": AT,
    "started_at": AT,
    "finished_at": None,
}
USAGE_DAY: Json = {
    "day": "2026-11-18",
    "topic": None,
    "enqueued": 120_000,
    "enqueued_bytes": 31_400_000,
    "delivered": 120_350,
    "acked": 119_980,
    "retried": 350,
    "dead": 20,
}
USAGE_NOW: Json = {"stored": 1200, "in_flight": 40, "dead": 20, "quotas": QUOTAS}
USAGE_HOUR: Json = {
    "at": "2026-11-18T13:00:00Z",
    "topic": None,
    "enqueued": 5000,
    "enqueued_bytes": 1_310_000,
    "delivered": 5014,
    "acked": 4998,
    "retried": 14,
    "dead": 2,
    "wait_ms": {"p50": 2.6, "p95": 4.8, "p99": 5.5},
    "work_ms": {"p50": 41.0, "p95": 180.2, "p99": 412.9},
    "total_ms": {"p50": 44.1, "p95": 185.0, "p99": 420.3},
}
FAILURE: Json = {
    "id": "9f1c04be7a2d6350",
    "topic": "emails",
    "reason": "max_retries",
    "error": "mailbox of user<n> is full (<n>)",
    "deaths": 10,
    "share": 0.5,
    "first_at": AT,
    "last_at": AT,
    "sample": "mailbox of user17 is full (552)",
    "sample_id": 269_449_251,
    "days": [{"day": "2026-11-18", "deaths": 10}],
    "redrive": {
        "waiting": 12,
        "advice": "12 of the topic wait; when the cause is gone: replay those of this error",
        "job": {
            "kind": "replay",
            "filter": {"topic": "emails", "error": "mailbox of user", "reason": "max_retries"},
            "dry_run": False,
            "rate_per_s": None,
            "max": None,
        },
    },
}
