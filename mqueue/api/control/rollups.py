"""`namespaces/{ns}/usage/hours/` and `…/failures/`: what the pipeline has rolled up, and how old that is."""

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal

from django.http import HttpResponse
from rest_framework.request import Request

from mqueue.api.bridge import bridge
from mqueue.api.control.base import ControlView, answer
from mqueue.api.control.reading import read_query
from mqueue.core.conf import conf
from mqueue.engine.rollups import Failed, Hours
from tenants import access
from tenants.rollup_records import Failure, FailurePage, UsageHour, UsageHourPage
from tenants.rules import DLQ_SCOPE, VIEWER

DAYS = {"hour": 2, "day": 30}  # where nothing is asked for
FAILURE_DAYS = 30
BEHIND_ALL = "~"  # every name of a topic sorts before it
NO_LAKE = "Nothing is rolled up: no lake is configured (LAKE_URL)."
NOT_YET = "Nothing has been rolled up yet: Celery does it at 02:10 UTC, `manage.py pipeline {}` does it now."


class UsageHoursView(ControlView):
    roles: ClassVar[dict[str, str]] = {"GET": VIEWER}

    def get(self, request: Request, namespace: str) -> HttpResponse:
        wanted = read_query(request, UsageHourPage)
        access.namespace(self.asker, namespace)
        hours, below = hours_of(namespace, wanted)
        return answer({"items": hours, "next": below, **freshness("usage")})


class FailuresView(ControlView):
    roles: ClassVar[dict[str, str]] = {"GET": VIEWER}
    scope: ClassVar[str] = DLQ_SCOPE

    def get(self, request: Request, namespace: str) -> HttpResponse:
        wanted = read_query(request, FailurePage)
        access.namespace(self.asker, namespace, VIEWER, DLQ_SCOPE)
        failures, below = failures_of(namespace, wanted)
        return answer({"items": failures, "next": below, **freshness("failures")})


def freshness(kind: Literal["usage", "failures"]) -> dict[str, Any]:
    """When it was last rolled up; and where it never was, why."""
    at = bridge().call(lambda plane: plane.engine.rollups.at(kind))
    hint = None
    if at is None:
        hint = NOT_YET.format(kind) if conf().lake.is_on else NO_LAKE
    return {"rolled_up_at": at, "hint": hint}


def hours_of(namespace: str, wanted: UsageHourPage) -> tuple[list[UsageHour], str | None]:
    """A page, and the place below it."""
    until = wanted.until or datetime.now(UTC)
    since = wanted.since or max(until, _EARLIEST) - timedelta(days=DAYS[wanted.by])
    before, after = _hour_place(wanted.after, by_topic=wanted.by_topic)
    asked = Hours(
        namespace, wanted.topic, since, until, wanted.by, not wanted.by_topic, before, after, wanted.limit + 1
    )
    hours = bridge().call(lambda plane: plane.engine.rollups.hours(asked))
    if len(hours) <= wanted.limit:
        return hours, None
    last = hours[wanted.limit - 1]
    place = f"{last.at:%Y-%m-%dT%H}"
    return hours[: wanted.limit], f"{place}/{last.topic}" if last.topic else place


def failures_of(namespace: str, wanted: FailurePage) -> tuple[list[Failure], str | None]:
    """A page, and the place below it."""
    until = wanted.until or datetime.now(UTC).date()
    since = wanted.since or max(until, _EARLIEST.date()) - timedelta(days=FAILURE_DAYS - 1)
    deaths, _, number = wanted.after.partition("-")
    before = int(deaths) if deaths else 2**62
    asked = Failed(namespace, wanted.topic, since, until, before, number, wanted.limit + 1)
    found = bridge().call(lambda plane: plane.engine.rollups.failures(asked))
    if len(found) <= wanted.limit:
        return found, None
    last = found[wanted.limit - 1]
    return found[: wanted.limit], f"{last.deaths}-{last.id}"


_EARLIEST = datetime(1, 3, 1, tzinfo=UTC)  # so that the days before it can be said
_LATEST = datetime.max.replace(tzinfo=UTC)


def _hour_place(text: str, *, by_topic: bool) -> tuple[datetime, str]:
    hour, _, topic = text.partition("/")
    try:
        return datetime.strptime(hour, "%Y-%m-%dT%H").replace(tzinfo=UTC), topic or ("" if by_topic else BEHIND_ALL)
    except ValueError:  # none, or none that there is
        return _LATEST, ""
