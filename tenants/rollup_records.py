"""What the pipeline has rolled up of a namespace, as the control plane answers it."""

from datetime import date, datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from mqueue.core.messages import Reason, Time, Topic
from tenants.job_records import JobRequest

HOUR_PLACE = r"^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}(/[A-Za-z0-9._:-]{0,128})?)?\Z"
FAILURE_PLACE = r"^([0-9]{1,18}-[0-9a-f]{16})?\Z"


class UsageHourPage(Struct, frozen=True):
    """`since` is included, `until` is not; the hours or days between, in UTC."""

    since: Time | None = None
    until: Time | None = None
    topic: Topic | None = None
    by_topic: bool = False
    by: Literal["hour", "day"] = "hour"
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    after: Annotated[str, Meta(max_length=150, pattern=HOUR_PLACE)] = ""


class Percentiles(Struct, frozen=True):
    """In milliseconds."""

    p50: float
    p95: float
    p99: float


class UsageHour(Struct, frozen=True):
    """`topic` is null where all of them are meant. Times are null where nothing was timed."""

    at: datetime
    topic: str | None
    enqueued: int
    enqueued_bytes: int
    delivered: int
    acked: int
    retried: int
    dead: int
    wait_ms: Percentiles | None
    work_ms: Percentiles | None
    total_ms: Percentiles | None


class FailurePage(Struct, frozen=True):
    """Days in UTC, both inclusive."""

    since: date | None = None
    until: date | None = None
    topic: Topic | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    after: Annotated[str, Meta(max_length=40, pattern=FAILURE_PLACE)] = ""


class FailureDay(Struct, frozen=True):
    day: date
    deaths: int


class Redrive(Struct, frozen=True):
    """`waiting` are the topic's dead letters now. `job` is what `jobs/` takes; null where none is left."""

    waiting: int
    advice: str
    job: JobRequest | None


class Failure(Struct, frozen=True):
    """`error` without what differs from message to message; `share` of the topic's deaths, from 0 to 1; `first_at` is
    of the first one ever."""

    id: str
    topic: str
    reason: Reason
    error: str
    deaths: int
    share: float
    first_at: datetime
    last_at: datetime
    sample: str
    sample_id: int
    days: list[FailureDay]
    redrive: Redrive


TYPES = (Percentiles, UsageHour, FailureDay, Redrive, Failure)
PAGES = (UsageHourPage, FailurePage)
