"""What a namespace uses."""

from datetime import UTC, datetime, timedelta

from django.http import HttpRequest, HttpResponse

from mqueue.api.control.usage import now, used
from mqueue.api.support.base import SupportView
from tenants import access, shapes
from tenants.usage_records import UsagePage

DAYS = 14


class UsageOfNamespacePage(SupportView):
    template, tab = "usage.html", "usage"

    def get(self, request: HttpRequest, namespace: str) -> HttpResponse:
        home, quota = access.quota(self.asker, namespace)
        quotas = shapes.quotas(home, quota)
        today = datetime.now(UTC).date()
        days, _ = used(home.name, UsagePage(since=today - timedelta(days=DAYS - 1), until=today))
        by_topic, _ = used(home.name, UsagePage(since=today, until=today, by_topic=True))
        present = now(home.name, quotas)
        most = max((day.enqueued for day in days), default=0)
        return self.page(
            f"Usage of {home.name}",
            days=[(day, round(100 * day.enqueued / most) if most else 0) for day in days],
            by_topic=by_topic,
            now=present,
            limits=[
                ("stored", present.stored, quotas.max_stored),
                ("in flight", present.in_flight, quotas.max_in_flight),
                ("messages a minute", None, quotas.messages_per_minute),
                ("bytes a minute", None, quotas.bytes_per_minute),
            ],
        )
