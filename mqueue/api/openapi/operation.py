"""What is said of one operation."""

from dataclasses import dataclass, field
from typing import Any

from mqueue.core.errors import (
    Forbidden,
    Invalid,
    MqueueError,
    RateLimited,
    ShardUnavailable,
    TooLarge,
    Unauthenticated,
    UnsupportedMedia,
)

Json = dict[str, Any]
Errors = tuple[type[MqueueError], ...]
ASKING: Errors = (Invalid, Unauthenticated, Forbidden, RateLimited, ShardUnavailable)
SENDING: Errors = (*ASKING, TooLarge, UnsupportedMedia)


@dataclass(frozen=True)
class Operation:
    name: str
    summary: str
    answer: Json
    example: Any
    description: str = ""
    query: str = ""  # the type whose fields come in the query
    body: Json | None = None
    sent: Any = None  # an example of the body
    errors: Errors = ASKING
    headers: Json = field(default_factory=dict)
    tag: str = "queue"
    status: int = 200  # of the answer; 204 has no body
    also: tuple[int, ...] = ()  # other statuses with the same body
