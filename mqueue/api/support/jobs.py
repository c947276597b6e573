"""Jobs, with how far they have come."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from mqueue.api.support.acts import said
from mqueue.api.support.base import SupportView
from mqueue.core import names
from tenants import access, audit, jobs, shapes
from tenants.rules import LIVE, OPERATOR, VIEWER

A_PAGE = 50


class JobsPage(SupportView):
    template, tab = "jobs.html", "jobs"

    def get(self, request: HttpRequest, namespace: str) -> HttpResponse:
        found = access.jobs(self.asker, namespace)
        after = names.number(request.GET.get("after", ""))
        if after is not None:
            found = found.filter(pk__lt=after)
        rows = list(found.order_by("-id")[: A_PAGE + 1])
        hint = jobs.hint(jobs.runner_seen_at())
        lines = [shapes.job(row, hint) for row in rows[:A_PAGE]]
        below = str(lines[-1].id) if len(rows) > A_PAGE else ""
        return self.page(
            f"Jobs of {namespace}",
            lines=[(line, f"{line.progress:.0%}") for line in lines],
            below=below,
            hint=next((line.hint for line in lines if line.hint), ""),
            refresh=any(line.state in LIVE for line in lines),
        )


class JobPage(SupportView):
    roles = {"GET": VIEWER, "POST": OPERATOR}
    template, tab = "job.html", "jobs"

    def get(self, request: HttpRequest, namespace: str, number: str) -> HttpResponse:
        found = access.job(self.asker, namespace, number)
        job = shapes.job(found, jobs.hint(jobs.runner_seen_at()))
        return self.page(
            f"Job {job.id}",
            job=job,
            percent=f"{job.progress:.0%}",
            conditions=said(job.filter),
            is_live=job.state in LIVE,
            refresh=job.state in LIVE,
        )

    def post(self, request: HttpRequest, namespace: str, number: str) -> HttpResponse:
        """Cancel it."""
        with audit.changing():
            found = access.job(self.asker, namespace, number, OPERATOR)
            jobs.cancel_job(self.asker, found)
        self.say("It is cancelled: what it has done stays done.")
        return redirect("support:job", namespace, found.pk)
