"""What the control plane takes and answers, as types: reading is validating."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from mqueue.core import names
from mqueue.core.messages import Retry, Time, Visibility
from tenants.rules import QUOTA, RATE_CAPACITY, RATE_REFILL, RETENTION_DAYS, RETRIES, RETRY_MS, WEIGHT
from tenants.snapshot import Rate

Text = Annotated[str, Meta(max_length=1000, pattern=names.TEXT)]
Name = Annotated[str, Meta(max_length=100, pattern=names.TEXT)]
Amount = Annotated[int, Meta(ge=QUOTA[0], le=QUOTA[1])]
Milliseconds = Annotated[int, Meta(ge=RETRY_MS[0], le=RETRY_MS[1])]
Days = Annotated[int, Meta(ge=RETENTION_DAYS[0], le=RETENTION_DAYS[1])]
Kind = Literal["api_key", "HS256", "RS256", "ES256", "EdDSA"]
KeyScope = Literal["enqueue", "dequeue", "dlq", "admin", "*"]
Role = Literal["viewer", "operator", "admin"]
Strategy = Literal["exponential", "linear", "constant"]
Durability = Literal["commit", "buffered"]


class NamespaceChange(Struct, frozen=True):
    description: Text | UnsetType = UNSET


class Namespace(Struct, frozen=True):
    name: str
    description: str
    created_at: datetime


class RetryChange(Struct, frozen=True):
    strategy: Strategy | UnsetType | None = UNSET
    base_ms: Milliseconds | UnsetType | None = UNSET
    max_ms: Milliseconds | UnsetType | None = UNSET
    jitter: Annotated[float, Meta(ge=0, le=1)] | UnsetType | None = UNSET


class RateChange(Struct, frozen=True):
    """A token bucket of dequeued messages."""

    capacity: Annotated[int, Meta(ge=RATE_CAPACITY[0], le=RATE_CAPACITY[1])]
    refill_per_s: Annotated[float, Meta(ge=RATE_REFILL[0], le=RATE_REFILL[1])]


class TopicChange(Struct, frozen=True):
    """null is the default."""

    visibility_ms: Visibility | UnsetType | None = UNSET
    max_retries: Annotated[int, Meta(ge=RETRIES[0], le=RETRIES[1])] | UnsetType | None = UNSET
    retry: RetryChange | UnsetType | None = UNSET
    retention_days: Days | UnsetType | None = UNSET
    durability: Durability | UnsetType | None = UNSET
    paused: bool | UnsetType | None = UNSET
    rate: RateChange | UnsetType | None = UNSET
    tracing: bool | UnsetType | None = UNSET


class Topic(Struct, frozen=True):
    """With the defaults where nothing else was set; without a rate, dequeues are not limited."""

    namespace: str
    name: str
    visibility_ms: int
    max_retries: int
    retry: Retry
    retention_days: int
    durability: Durability
    paused: bool
    rate: Rate | None
    tracing: bool
    created_at: datetime


class QuotaChange(Struct, frozen=True):
    """null is no limit, and the weight 1."""

    messages_per_minute: Amount | UnsetType | None = UNSET
    bytes_per_minute: Amount | UnsetType | None = UNSET
    max_stored: Amount | UnsetType | None = UNSET
    max_in_flight: Amount | UnsetType | None = UNSET
    max_topics: Amount | UnsetType | None = UNSET
    weight: Annotated[int, Meta(ge=WEIGHT[0], le=WEIGHT[1])] | UnsetType | None = UNSET


class Quotas(Struct, frozen=True):
    messages_per_minute: int | None
    bytes_per_minute: int | None
    max_stored: int | None
    max_in_flight: int | None
    max_topics: int | None
    weight: int | None


class KeyRequest(Struct, frozen=True):
    name: Name = ""
    kind: Kind = "api_key"
    scopes: Annotated[list[KeyScope], Meta(min_length=1, max_length=5)] | None = None
    public_key: Annotated[str, Meta(min_length=1, max_length=8192)] | dict[str, Any] | None = None
    expires_at: Time | None = None


class Key(Struct, frozen=True):
    kid: str
    name: str
    kind: Kind
    scopes: list[KeyScope]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    prefix: str | UnsetType = UNSET  # an API key begins with it
    public_key: str | UnsetType = UNSET  # PEM
    secret: str | UnsetType = UNSET  # shown once: what X-Api-Key carries, or what HS256 signs with


class MemberChange(Struct, frozen=True):
    role: Role


class Member(Struct, frozen=True):
    user: str
    role: Role
    created_at: datetime


class AuditEntry(Struct, frozen=True):
    id: int
    at: datetime
    actor: str
    via: str
    action: str
    namespace: str
    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Page(Struct, frozen=True):
    """`after` is the last page's `next`."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    after: Annotated[str, Meta(max_length=150, pattern=names.TEXT)] = ""


class NamespacePage(Page, frozen=True):
    prefix: Annotated[str, Meta(max_length=63, pattern=names.TEXT)] = ""


class TopicPage(Page, frozen=True):
    prefix: Annotated[str, Meta(max_length=128, pattern=names.TEXT)] = ""
    paused: bool | None = None
    durability: Durability | None = None


Number = Annotated[str, Meta(pattern=r"^[0-9]{0,18}\Z")]


class KeyPage(Page, frozen=True):
    after: Number = ""
    state: Literal["live", "revoked"] | None = None
    kind: Kind | None = None


class MemberPage(Page, frozen=True):
    role: Role | None = None


class AuditPage(Page, frozen=True):
    after: Number = ""
    action: Annotated[str, Meta(max_length=32, pattern=names.TEXT)] | None = None
    actor: Annotated[str, Meta(max_length=300, pattern=names.TEXT)] | None = None
    since: Time | None = None
    until: Time | None = None


class Deletion(Struct, frozen=True):
    force: bool = False


TYPES = (
    NamespaceChange,
    Namespace,
    TopicChange,
    Topic,
    QuotaChange,
    Quotas,
    KeyRequest,
    Key,
    MemberChange,
    Member,
    AuditEntry,
)
PAGES = (NamespacePage, TopicPage, KeyPage, MemberPage, AuditPage, Deletion)
