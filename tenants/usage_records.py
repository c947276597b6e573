"""What a namespace uses, as the control plane answers it."""

from datetime import date
from typing import Annotated

from msgspec import Meta, Struct

from mqueue.core import names
from tenants.records import Quotas

USAGE_PLACE = r"^([0-9]{4}-[0-9]{2}-[0-9]{2}(/[A-Za-z0-9._:-]{0,128})?)?\Z"


class UsagePage(Struct, frozen=True):
    """Days in UTC, both inclusive."""

    since: date | None = None
    until: date | None = None
    topic: Annotated[str, Meta(pattern=names.TOPIC)] | None = None
    by_topic: bool = False
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    after: Annotated[str, Meta(max_length=150, pattern=USAGE_PLACE)] = ""


class UsageDay(Struct, frozen=True):
    """`topic` is null where all of them are meant."""

    day: date
    topic: str | None
    enqueued: int
    enqueued_bytes: int
    delivered: int
    acked: int
    retried: int
    dead: int


class UsageNow(Struct, frozen=True):
    stored: int
    in_flight: int
    dead: int
    quotas: Quotas


TYPES = (UsageDay, UsageNow)
PAGES = (UsagePage,)
