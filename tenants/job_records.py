"""Searches among dead letters, and jobs on what they find, as the control plane takes and answers them."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from mqueue.core.searches import PLACE, DeadFilter, JobFilter
from tenants.records import Number, Page

JobKind = Literal["replay", "delete", "purge"]
JobState = Literal["queued", "running", "done", "failed", "cancelled"]


class DeadSearchPage(DeadFilter, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    after: Annotated[str, Meta(max_length=40, pattern=PLACE)] = ""


JobRate = Annotated[int, Meta(ge=1, le=100_000)]
Most = Annotated[int, Meta(ge=1, le=10**15)]


class JobRequest(Struct, frozen=True):
    """What to do with the dead letters that a filter means; `{}` means all of them."""

    kind: Literal["replay", "delete"]
    filter: JobFilter
    dry_run: bool = False
    rate_per_s: JobRate | None = None
    max: Most | None = None


class PurgeRequest(Struct, frozen=True):
    dead: bool = False
    dry_run: bool = False
    rate_per_s: JobRate | None = None
    max: Most | None = None


class Job(Struct, frozen=True):
    """`matched` is what fits the filter and was not gone, `done` what was changed; `progress` goes from 0 to 1."""

    id: int
    kind: JobKind
    topic: str | None
    filter: DeadFilter
    dead: bool
    dry_run: bool
    rate_per_s: int | None
    max: int | None
    state: JobState
    total: int | None
    searched: int
    matched: int
    done: int
    progress: float
    error: str | None
    hint: str | None
    created_by: str
    via: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class JobPage(Page, frozen=True):
    after: Number = ""
    state: JobState | None = None
    kind: JobKind | None = None


TYPES = (DeadFilter, JobFilter, JobRequest, PurgeRequest, Job)
PAGES = (DeadSearchPage, JobPage)
