"""Making, cancelling and showing jobs. They are done by whoever runs Celery: see `daemons/jobs.py`."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from django.db import connection

from mqueue.core.errors import Conflict
from mqueue.core.searches import DeadFilter
from tenants import audit, shapes
from tenants.askers import Asker
from tenants.job_models import Job, JobRunner
from tenants.models import Namespace
from tenants.rules import CANCELLED, LIVE

MOST_LIVE = 100  # of a namespace
ABSENT_AFTER = timedelta(seconds=15)
LOOK = """
WITH here AS (
    INSERT INTO job_runner (singleton, seen_at) VALUES (true, now())
    ON CONFLICT (singleton) DO UPDATE SET seen_at = excluded.seen_at
)
SELECT EXISTS (
    SELECT FROM job WHERE state IN ('queued', 'running') AND (held_until IS NULL OR held_until < now())
)
"""


def make_job(asker: Asker, home: Namespace, kind: str, *, filter: DeadFilter, **more: Any) -> Job:  # noqa: A002
    """With its line in the audit log, or not at all."""
    if Job.objects.filter(namespace=home, state__in=LIVE).count() >= MOST_LIVE:
        raise Conflict(f"A namespace has at most {MOST_LIVE} jobs that are not over: wait for one, or cancel it")
    made = Job.objects.create(
        namespace=home, kind=kind, filter=msgspec.to_builtins(filter), created_by=asker.name, via=asker.via, **more
    )
    made.refresh_from_db()  # the database says when
    audit.note(asker, f"job.{kind}", home.name, str(made.pk), after=shapes.job(made))
    return made


def cancel_job(asker: Asker, job: Job) -> bool:
    """False where it was cancelled before. A portion that is under way is finished."""
    if job.state == CANCELLED:
        return False
    if job.state not in LIVE:
        raise Conflict(f"The job is {job.state}: there is nothing to cancel")
    before = shapes.job(job)
    job.state, job.finished_at = CANCELLED, datetime.now(UTC)
    job.save(update_fields=["state", "finished_at"])
    audit.note(asker, "job.cancel", job.namespace.name, str(job.pk), before=before, after=shapes.job(job))
    return True


def look_for_jobs() -> bool:
    """Whether there is one to do; and that somebody looks is known from now on."""
    with connection.cursor() as cursor:
        cursor.execute(LOOK)
        return bool(cursor.fetchone()[0])


def runner_seen_at() -> datetime | None:
    return JobRunner.objects.values_list("seen_at", flat=True).first()


def hint(seen_at: datetime | None) -> str | None:
    """What a job that waits should say of those who might do it."""
    if seen_at and datetime.now(UTC) - seen_at < ABSENT_AFTER:
        return None
    when = f"since {seen_at:%Y-%m-%d %H:%M:%S} UTC" if seen_at else "ever"
    return f"No Celery worker has looked for jobs {when}. Start one: python -m launch only celery"
