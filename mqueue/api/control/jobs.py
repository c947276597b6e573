"""`namespaces/{ns}/jobs/`, `…/jobs/{job}/`, and `…/topics/{topic}/purge/`, which makes one."""

from typing import ClassVar

from django.http import HttpResponse
from rest_framework.request import Request

from mqueue.api.control.base import ControlView, answer
from mqueue.api.control.pages import page
from mqueue.api.control.reading import read_body, read_query
from mqueue.core.searches import DeadFilter
from tenants import access, audit, jobs, models, shapes
from tenants.job_records import Job, JobPage, JobRequest, PurgeRequest
from tenants.rules import DLQ_SCOPE, OPERATOR, PURGE, VIEWER


def shown(found: models.Job) -> Job:
    return shapes.job(found, jobs.hint(jobs.runner_seen_at()))


class JobsView(ControlView):
    roles: ClassVar[dict[str, str]] = {"GET": VIEWER, "POST": OPERATOR}
    scope: ClassVar[str] = DLQ_SCOPE

    def get(self, request: Request, namespace: str) -> HttpResponse:
        wanted = read_query(request, JobPage)
        found = access.jobs(self.asker, namespace, VIEWER, DLQ_SCOPE)
        if wanted.state is not None:
            found = found.filter(state=wanted.state)
        if wanted.kind is not None:
            found = found.filter(kind=wanted.kind)
        hint = jobs.hint(jobs.runner_seen_at())
        return page(found, wanted, "-id", lambda job: shapes.job(job, hint))

    def post(self, request: Request, namespace: str) -> HttpResponse:
        asked = read_body(request, JobRequest)
        with audit.changing():
            home = access.namespace(self.asker, namespace, OPERATOR, DLQ_SCOPE)
            made = jobs.make_job(
                self.asker,
                home,
                asked.kind,
                filter=asked.filter,
                is_dry_run=asked.dry_run,
                rate_per_s=asked.rate_per_s,
                most=asked.max,
            )
        return answer(shown(made), 201)


class JobView(ControlView):
    roles: ClassVar[dict[str, str]] = {"GET": VIEWER, "DELETE": OPERATOR}
    scope: ClassVar[str] = DLQ_SCOPE

    def get(self, request: Request, namespace: str, job: str) -> HttpResponse:
        return answer(shown(access.job(self.asker, namespace, job, VIEWER, DLQ_SCOPE)))

    def delete(self, request: Request, namespace: str, job: str) -> HttpResponse:
        """The record stays, and says that it was cancelled."""
        with audit.changing():
            found = access.job(self.asker, namespace, job, OPERATOR, DLQ_SCOPE)
            jobs.cancel_job(self.asker, found)
        return answer(shown(found))


class PurgeView(ControlView):
    roles: ClassVar[dict[str, str]] = {"POST": OPERATOR}

    def post(self, request: Request, namespace: str, topic: str) -> HttpResponse:
        asked = read_body(request, PurgeRequest)
        with audit.changing():
            found = access.topic(self.asker, namespace, topic, OPERATOR)
            made = jobs.make_job(
                self.asker,
                found.namespace,
                PURGE,
                filter=DeadFilter(),
                topic=found.name,
                with_dead=asked.dead,
                is_dry_run=asked.dry_run,
                rate_per_s=asked.rate_per_s,
                most=asked.max,
            )
        return answer(shown(made), 201)
