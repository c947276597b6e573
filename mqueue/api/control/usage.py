"""`namespaces/{ns}/usage/`: what was used by day, and what there is now beside the quotas."""

from datetime import UTC, date, datetime, timedelta

from django.http import HttpResponse
from rest_framework.request import Request

from mqueue.api.bridge import bridge
from mqueue.api.control.base import ControlView, answer
from mqueue.api.control.reading import read_query
from mqueue.api.plane import Plane
from mqueue.engine.totals import totals
from mqueue.engine.usage import Wanted
from tenants import access, shapes
from tenants.records import Quotas
from tenants.rules import VIEWER
from tenants.usage_records import UsageDay, UsageNow, UsagePage

DAYS = 30  # where nothing is asked for
BEHIND_ALL = "~"  # every name of a topic sorts before it


class UsageView(ControlView):
    roles = {"GET": VIEWER}

    def get(self, request: Request, namespace: str) -> HttpResponse:
        wanted = read_query(request, UsagePage)
        quotas = shapes.quotas(*access.quota(self.asker, namespace))
        days, below = used(namespace, wanted)
        return answer({"items": days, "next": below, "now": now(namespace, quotas, wanted.topic)})


def used(namespace: str, wanted: UsagePage) -> tuple[list[UsageDay], str | None]:
    """A page, and the place below it."""
    until = wanted.until or datetime.now(UTC).date()
    asked = Wanted(
        namespace,
        wanted.topic,
        wanted.since or until - timedelta(days=DAYS - 1),
        until,
        wanted.by_topic,
        _place(wanted.after, by_topic=wanted.by_topic),
        wanted.limit + 1,
    )
    days = bridge().call(lambda plane: plane.engine.usages.page(asked))
    if len(days) <= wanted.limit:
        return days, None
    last = days[wanted.limit - 1]
    return days[: wanted.limit], f"{last.day}/{last.topic}" if last.topic else str(last.day)


def now(namespace: str, quotas: Quotas, topic: str | None = None) -> UsageNow:
    async def count(plane: Plane) -> UsageNow:
        found = await totals(plane.engine.look, namespace, topic)
        return UsageNow(found.waiting + found.leased, found.leased, found.dead, quotas)

    return bridge().call(count)


def _place(after: str, *, by_topic: bool) -> tuple[date, str]:
    day, _, topic = after.partition("/")
    try:
        return date.fromisoformat(day), topic or ("" if by_topic else BEHIND_ALL)
    except ValueError:  # none, or none that there is
        return date.max, ""
