"""What messages died of, and what may be done about it."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse

from mqueue.api.control.rollups import failures_of, freshness
from mqueue.api.support.base import SupportView
from mqueue.api.support.charts import spark
from mqueue.api.support.letters import as_query
from mqueue.api.support.payloads import visible
from mqueue.api.support.usage import span_of, topic_of
from tenants import access
from tenants.rollup_records import FAILURE_PLACE, Failure, FailurePage

A_PAGE = 50
RANGES = (7, 30, 90)
NEW_DAYS = 2
TREND = (120, 26)


class Line(NamedTuple):
    failure: Failure
    error: str
    sample: str
    share: int
    is_new: bool
    trend: str
    most: int  # a day
    search: str  # of its dead letters; empty where none is left


class FailuresPage(SupportView):
    template, tab = "failures.html", "failures"

    def get(self, request: HttpRequest, namespace: str) -> HttpResponse:
        home = access.namespace(self.asker, namespace)
        topic, span = topic_of(request), span_of(request, RANGES, 30)
        days = [datetime.now(UTC).date() - timedelta(days=number) for number in range(span - 1, -1, -1)]
        after = request.GET.get("after", "")
        wanted = FailurePage(days[0], days[-1], topic, A_PAGE, after if re.match(FAILURE_PLACE, after) else "")
        found, below = failures_of(home.name, wanted)
        asked = {"days": span} | ({"topic": topic} if topic else {})
        return self.page(
            f"Failures of {home.name}",
            lines=[line_of(one, days) for one in found],
            below=urlencode(asked | {"after": below}) if below else "",
            topic=topic or "",
            span=span,
            ranges=RANGES,
            trend_size=TREND,
            **freshness("failures"),
        )


def line_of(failure: Failure, days: list[date]) -> Line:
    deaths = {one.day: one.deaths for one in failure.days}
    by_day = [deaths.get(day, 0) for day in days]
    job = failure.redrive.job
    return Line(
        failure,
        visible(failure.error),
        visible(failure.sample) if failure.sample != failure.error else "",
        round(100 * failure.share),
        failure.first_at.date() > days[-1] - timedelta(days=NEW_DAYS),
        spark(by_day, *TREND),
        max(by_day),
        as_query(job.filter) if job else "",
    )
