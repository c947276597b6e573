"""The requests of the data plane, as types: decoding is validating."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from mqueue.core import names

MAX_BATCH = 10_000
MAX_SETTLES = 1_000
MAX_PAYLOAD = 256 * 1024
MAX_REQUEST = 16 * 1024 * 1024
MAX_AHEAD_MS = 90 * 86_400_000
MAX_HEADERS, MAX_HEADER_BYTES = 32, 8 * 1024
MAX_ERROR = 8 * 1024
DEFAULT_PRIORITY = 5
DEFAULT_MAX_RETRIES = 3
DEFAULT_VISIBILITY_MS = 30_000

Namespace = Annotated[str, Meta(pattern=names.NAMESPACE)]
Topic = Annotated[str, Meta(pattern=names.TOPIC)]
MessageId = Annotated[int, Meta(ge=0, lt=2**53)]
Key = Annotated[str, Meta(min_length=1, max_length=255, pattern=names.TEXT)]
Visibility = Annotated[int, Meta(ge=1_000, le=43_200_000)]
Time = Annotated[datetime, Meta(tz=True)]
# What follows says more than decoding checks, or as much in other words: it is for those who read the description.
Payload = Annotated[bytes, Meta(extra_json_schema={"pattern": names.BASE64})]
Headers = Annotated[
    dict[str, Annotated[str, Meta(extra_json_schema={"pattern": names.TEXT})]],
    Meta(extra_json_schema={"maxProperties": MAX_HEADERS, "propertyNames": {"pattern": names.TEXT}}),
]
StoredHeaders = Annotated[
    msgspec.Raw, Meta(extra_json_schema={"type": "object", "additionalProperties": {"type": "string"}})
]
Reason = Literal["max_retries", "expired", "rejected"]


class Retry(Struct, frozen=True):
    strategy: Literal["exponential", "linear", "constant"] = "exponential"
    base_ms: Annotated[int, Meta(ge=0, le=MAX_AHEAD_MS)] = 1_000
    max_ms: Annotated[int, Meta(ge=0, le=MAX_AHEAD_MS)] = 3_600_000
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.25


class Message(Struct, frozen=True, gc=False):
    """One element of POST /enqueue. `body` stays as it was sent, so it comes back equal."""

    namespace: Namespace
    topic: Topic
    payload: Payload | UnsetType = UNSET
    body: msgspec.Raw | UnsetType = UNSET
    priority: Annotated[int, Meta(ge=0, le=255)] = DEFAULT_PRIORITY
    deliver_after: Time | None = None
    delay_ms: Annotated[int, Meta(ge=0, le=MAX_AHEAD_MS)] | None = None
    ttl_ms: Annotated[int, Meta(ge=1, le=10 * 365 * 86_400_000)] | None = None
    idempotency_key: Key | None = None
    headers: Headers | None = None
    traceparent: Annotated[str, Meta(pattern=names.TRACEPARENT)] | None = None
    max_retries: Annotated[int, Meta(ge=0, le=1000)] | None = None
    retry: Retry | None = None

    @property
    def content(self) -> bytes:
        return bytes(self.body) if isinstance(self.body, msgspec.Raw) else self.payload or b""

    @property
    def size(self) -> int:
        """As quotas count it."""
        return len(self.content) + (bytes_of(self.headers) if self.headers else 0)

    @property
    def is_json(self) -> bool:
        return self.body is not UNSET


class Dequeue(Struct, frozen=True):
    namespace: Namespace
    topic: Topic
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1
    visibility_ms: Visibility | None = None
    wait_ms: Annotated[int, Meta(ge=0, le=20_000)] = 0


class Settle(Struct, frozen=True):
    id: MessageId
    namespace: Namespace
    topic: Topic
    receipt: str | None = None


class Nack(Settle, frozen=True):
    error: str | None = None
    delay_ms: Annotated[int, Meta(ge=0, le=MAX_AHEAD_MS)] | None = None
    dead: bool = False


class Extend(Settle, frozen=True):
    visibility_ms: Visibility | None = None


class Place(Struct, frozen=True):
    """Where a message is looked for."""

    namespace: Namespace
    topic: Topic


class Move(Place, frozen=True):
    """PATCH /messages/{id}: a new place in the order."""

    priority: Annotated[int, Meta(ge=0, le=255)] | None = None
    deliver_after: Time | None = None
    delay_ms: Annotated[int, Meta(ge=0, le=MAX_AHEAD_MS)] | None = None


class Find(Struct, frozen=True):
    """GET /messages: by its key, or the heads of a state."""

    namespace: Namespace
    topic: Topic | None = None
    idempotency_key: Key | None = None
    state: Literal["ready", "scheduled", "leased"] = "ready"
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class DeadPage(Struct, frozen=True):
    """GET /dlq"""

    namespace: Namespace
    topic: Topic | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    after: MessageId = 0


class DeadChoice(Place, frozen=True):
    """Which dead letters to replay or to delete: exactly one of id, ids and all."""

    id: MessageId | None = None
    ids: Annotated[list[MessageId], Meta(max_length=MAX_BATCH)] | None = None
    all: bool = False


class StatsPage(Struct, frozen=True):
    namespace: Namespace
    topic: Topic | None = None
    after: Annotated[str, Meta(max_length=128, pattern=names.TEXT)] = ""


class Delivered(Struct, frozen=True, omit_defaults=True):
    """One element of the answer to /dequeue. Exactly one of payload and body is there."""

    id: int
    namespace: str
    topic: str
    priority: int
    headers: StoredHeaders
    attempt: int
    max_retries: int
    enqueued_at: Time
    deliver_after: Time | None
    lease_expires_at: Time
    receipt: str
    payload: Payload | UnsetType = UNSET
    body: msgspec.Raw | UnsetType = UNSET
    traceparent: str | UnsetType = UNSET


class DeadLetter(Struct, frozen=True):
    """One element of the answer to /dlq."""

    id: int
    namespace: str
    topic: str
    priority: int
    headers: StoredHeaders
    attempts: int
    error: str | None
    reason: Reason
    enqueued_at: Time
    died_at: Time
    payload: Payload | UnsetType = UNSET
    body: msgspec.Raw | UnsetType = UNSET


class Looked(Struct, frozen=True):
    """A message with its state, as a look shows it."""

    id: int
    namespace: str
    topic: str
    state: Literal["scheduled", "ready", "leased", "acked", "dead", "cancelled"]
    priority: int
    headers: StoredHeaders
    attempts: int
    max_retries: int
    enqueued_at: Time
    deliver_after: Time | None
    due: Time | None
    lease_expires_at: Time | None
    expires_at: Time | None
    idempotency_key: str | None
    payload: Payload | UnsetType = UNSET
    body: msgspec.Raw | UnsetType = UNSET
    traceparent: str | UnsetType = UNSET
    died_at: Time | UnsetType = UNSET
    error: str | UnsetType | None = UNSET
    reason: Reason | UnsetType = UNSET


class Event(Struct, frozen=True):
    """One step in the life of a message."""

    event: Literal[
        "published", "delivered", "redelivered", "nacked", "lapsed", "released", "moved", "acked", "dead", "replayed",
        "cancelled", "deleted",
    ]  # fmt: skip
    at: Time
    attempt: int
    consumer: str | None
    detail: str | None


class Depth(Struct, frozen=True):
    """One element of the answer to /stats."""

    namespace: str
    topic: str
    ready: int
    scheduled: int
    leased: int
    dead: int
    oldest_ready_age_ms: int | None


def wrong_with(message: Message) -> tuple[str, str] | None:
    """What the types cannot say: (field, what is wrong with it)."""
    if (message.payload is UNSET) == (message.body is UNSET):
        return "payload", "exactly one of payload and body is needed"
    if message.deliver_after is not None and message.delay_ms is not None:
        return "delay_ms", "deliver_after and delay_ms exclude each other"
    if message.headers and (wrong := _wrong_with_headers(message.headers)):
        return "headers", wrong
    return None


def bytes_of(headers: dict[str, str]) -> int:
    return sum(len(name.encode()) + len(value.encode()) for name, value in headers.items())


def _wrong_with_headers(headers: dict[str, str]) -> str:
    if len(headers) > MAX_HEADERS:
        return f"at most {MAX_HEADERS} entries"
    if bytes_of(headers) > MAX_HEADER_BYTES:
        return f"at most {MAX_HEADER_BYTES} bytes in all"
    if any("\0" in name or "\0" in value for name, value in headers.items()):
        return "NUL is not allowed here"
    return ""
