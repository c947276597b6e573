"""What a namespace uses."""

from datetime import UTC, datetime, timedelta
from typing import Literal

from django.http import HttpRequest, HttpResponse

from mqueue.api.control.rollups import freshness, hours_of
from mqueue.api.control.usage import now, used
from mqueue.api.support.base import SupportView
from mqueue.api.support.charts import Chart, Series, chart, counts, durations, sizes
from mqueue.core import names
from tenants import access, shapes
from tenants.rollup_records import Percentiles, UsageHour, UsageHourPage
from tenants.usage_records import UsagePage

DAYS = 14
RANGES = (2, 7, 30)  # days that the charts may show; the most of them by the day
BY_DAY = 30
TIMES = (
    ("wait_ms", "Wait, from due to the first delivery"),
    ("work_ms", "Work, from the last delivery to the ack"),
    ("total_ms", "End to end, from due to the ack"),
)


class UsageOfNamespacePage(SupportView):
    template, tab = "usage.html", "usage"

    def get(self, request: HttpRequest, namespace: str) -> HttpResponse:
        home, quota = access.quota(self.asker, namespace)
        quotas = shapes.quotas(home, quota)
        topic, span = topic_of(request), span_of(request, RANGES, 7)
        today = datetime.now(UTC).date()
        days, _ = used(home.name, UsagePage(since=today - timedelta(days=DAYS - 1), until=today, topic=topic))
        by_topic, _ = used(home.name, UsagePage(since=today, until=today, by_topic=True))
        present = now(home.name, quotas)
        most = max((day.enqueued for day in days), default=0)
        drawn = charts_of(home.name, topic, span)
        return self.page(
            f"Usage of {home.name}",
            charts=drawn,
            is_quiet=all(one.is_empty for one in drawn),
            topic=topic or "",
            span=span,
            ranges=RANGES,
            by_day=BY_DAY,
            days=[(day, round(100 * day.enqueued / most) if most else 0) for day in days],
            by_topic=by_topic,
            now=present,
            limits=[
                ("stored", present.stored, quotas.max_stored),
                ("in flight", present.in_flight, quotas.max_in_flight),
                ("messages a minute", None, quotas.messages_per_minute),
                ("bytes a minute", None, quotas.bytes_per_minute),
            ],
            **freshness("usage"),
        )


def topic_of(request: HttpRequest) -> str | None:
    topic = request.GET.get("topic", "").strip()
    return topic if names.is_topic(topic) else None


def span_of(request: HttpRequest, allowed: tuple[int, ...], otherwise: int) -> int:
    """Of how many days."""
    wanted = request.GET.get("days", "")
    return int(wanted) if wanted in map(str, allowed) else otherwise


def charts_of(namespace: str, topic: str | None, span: int) -> list[Chart]:
    by: Literal["hour", "day"] = "day" if span >= BY_DAY else "hour"
    step = timedelta(days=1) if by == "day" else timedelta(hours=1)
    last = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    last = last.replace(hour=0) if by == "day" else last
    until = last + step
    times = [until - number * step for number in range(timedelta(days=span) // step, 0, -1)]
    wanted = UsageHourPage(since=times[0], until=until, topic=topic, by=by, limit=1000)
    found = {hour.at: hour for hour in hours_of(namespace, wanted)[0]}
    return drawn(times, [found.get(time) for time in times])


def drawn(times: list[datetime], hours: list[UsageHour | None]) -> list[Chart]:
    def count(name: str) -> list[float]:
        return [getattr(hour, name) if hour else 0 for hour in hours]

    sent, acked, size = count("enqueued"), count("acked"), count("enqueued_bytes")
    retried, dead = count("retried"), count("dead")
    both = [a + b for a, b in zip(retried, dead, strict=True)]
    return [
        chart("Messages", times, [Series("enqueued", "main", sent, True), Series("acked", "good", acked)],
              counts(sent, acked)),
        chart("Payload", times, [Series("enqueued", "main", size, True)], sizes(size)),
        chart("Failures", times, [Series("dead", "bad", dead, True), Series("retried", "warn", retried, True)],
              counts(both)),
        *(timed(title, times, [getattr(hour, name) if hour else None for hour in hours]) for name, title in TIMES),
    ]  # fmt: skip


def timed(title: str, times: list[datetime], found: list[Percentiles | None]) -> Chart:
    shares = {name: [getattr(one, name) if one else None for one in found] for name in ("p50", "p95", "p99")}
    series = [Series(name, name, values) for name, values in shares.items()]
    return chart(title, times, series, durations(*shares.values()))
