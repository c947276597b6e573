"""The one error tree. A class says its code, its HTTP status and whether a retry may help; nothing else decides them.

MqueueError
├── Invalid             400  the request is malformed; `errors` names each index and field
├── Unauthenticated     401  no token, or one that does not hold
│   └── UnknownKey      401  its key is not known here, or is no longer
├── Forbidden           403  a namespace or scope that the token does not carry
├── NotFound            404  no such path or record
│   ├── NotLeased       404  the topic has no such message, or nobody holds it
│   └── NamespaceNotFound  404  it would have to be made first
├── MethodNotAllowed    405
├── Conflict            409
│   ├── StaleReceipt    409  the receipt's lease is over
│   ├── Leased          409  a consumer holds the message
│   └── NotEmpty        409  it has messages
├── TooLarge            413
├── HeadTooLarge        431
├── UnsupportedMedia    415
├── RateLimited         429  too much in too short a time
│   └── QuotaExceeded   429  a quota of the namespace is used up
├── Overloaded          503  the bodies that are here already fill the memory that is set aside for them
└── ShardUnavailable    503  the shard cannot answer now
    ├── SlotMoved           503  its slot is about to have another owner
    ├── Undecided           503  the connection was lost: it may have been done, or not
    ├── BufferFull          503  the write-ahead log before it has reached its limit
    └── ControlUnavailable  503  the control database cannot answer now
"""

from typing import Any, ClassVar


class MqueueError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"
    retryable: ClassVar[bool] = False
    usual_retry_after_s: ClassVar[float | None] = None  # where whoever raises it knows no better

    def __init__(self, detail: str = "", *, retry_after_s: float | None = None, **extra: Any) -> None:
        super().__init__(detail or self.__doc__)
        self.detail = detail or (self.__doc__ or "")
        self.retry_after_s = self.usual_retry_after_s if retry_after_s is None else retry_after_s
        self.extra = extra


class Invalid(MqueueError):
    """The request is malformed."""

    code, http_status, title = "invalid", 400, "Invalid request"


class Unauthenticated(MqueueError):
    """A token is needed: Authorization: Bearer <jwt>."""

    code, http_status, title = "unauthenticated", 401, "Not authenticated"


class UnknownKey(Unauthenticated):
    """There is no live key with this kid."""

    def __init__(self, kid: str = "") -> None:
        super().__init__()
        self.kid = kid


class Forbidden(MqueueError):
    """The token does not carry this namespace or scope."""

    code, http_status, title = "forbidden", 403, "Forbidden"


class NotFound(MqueueError):
    """There is nothing at this path."""

    code, http_status, title = "not_found", 404, "Not found"


class NotLeased(NotFound):
    """This topic has no such message, or nobody holds a lease on it."""

    code, title = "not_leased", "Not leased"


class NamespaceNotFound(NotFound):
    """There is no such namespace, and this service does not make namespaces on first use."""

    code, title = "namespace_not_found", "Namespace not found"


class MethodNotAllowed(MqueueError):
    """This path does not take this method."""

    code, http_status, title = "method_not_allowed", 405, "Method not allowed"


class Conflict(MqueueError):
    """The state of the message does not allow this."""

    code, http_status, title = "conflict", 409, "Conflict"


class StaleReceipt(Conflict):
    """The lease that this receipt names is over."""

    code, title = "stale_receipt", "Stale receipt"


class Leased(Conflict):
    """A consumer holds this message: it can be changed when the lease has ended."""

    code, title = "leased", "Leased"


class NotEmpty(Conflict):
    """It has messages, or dead letters: it can be deleted when they are gone, or by force."""

    code, title = "not_empty", "Not empty"


class TooLarge(MqueueError):
    """The request, or a message in it, is too large."""

    code, http_status, title = "too_large", 413, "Too large"


class HeadTooLarge(MqueueError):
    """The request line and the headers are over 64 KiB."""

    code, http_status, title = "head_too_large", 431, "Headers too large"


class UnsupportedMedia(MqueueError):
    """The body has to be application/json."""

    code, http_status, title = "unsupported_media_type", 415, "Unsupported media type"


class Overloaded(MqueueError):
    """Too much is being sent at once; try again in a moment."""

    code, http_status, title, retryable = "overloaded", 503, "Overloaded", True
    usual_retry_after_s = 1.0


class RateLimited(MqueueError):
    """A limit refuses this for now; try again after the time that the answer names."""

    code, http_status, title, retryable = "rate_limited", 429, "Rate limited", True


class QuotaExceeded(RateLimited):
    """A quota of the namespace refuses this for now; try again after the time that the answer names."""

    code, title = "quota_exceeded", "Quota exceeded"


class ShardUnavailable(MqueueError):
    """The database of this topic cannot answer now; try again."""

    code, http_status, title, retryable = "shard_unavailable", 503, "Shard unavailable", True
    usual_retry_after_s = 1.0


class SlotMoved(ShardUnavailable):
    """These messages are moving to another shard just now; try again in a moment."""

    def __init__(self, detail: str = "", *, slots: frozenset[int] = frozenset(), **more: Any) -> None:
        super().__init__(detail, **more)
        self.slots = slots  # all that move together


class Undecided(ShardUnavailable):
    """The connection to the database was lost before its answer came: this may have been done, or not."""


class BufferFull(ShardUnavailable):
    """The write-ahead log of this API process is full of messages that wait for the topic's database; try again."""

    code, title = "buffer_full", "Buffer full"


class ControlUnavailable(ShardUnavailable):
    """The control database cannot answer now, and this request needs it; try again."""

    code, title = "control_unavailable", "Control database unavailable"
