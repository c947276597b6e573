"""Topics as they are now: what waits, how old it is, and whether they hand out."""

import asyncio
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from mqueue.api.bridge import bridge
from mqueue.api.plane import Plane
from mqueue.api.support.acts import whole
from mqueue.api.support.base import SupportView
from mqueue.core.messages import Depth, StatsPage
from mqueue.core.searches import DeadFilter
from mqueue.engine.totals import Totals, totals
from tenants import access, audit, jobs, shapes
from tenants.models import Topic
from tenants.rules import OPERATOR, PURGE, VIEWER

A_PAGE = 50
NAMESPACES_A_PAGE = 25


class Line(NamedTuple):
    name: str
    paused: bool
    depth: Depth
    age: str
    settings: str


class HomesPage(SupportView):
    """The namespaces that somebody may look at."""

    template = "homes.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        prefix, after = clean(request.GET.get("prefix", "")), clean(request.GET.get("after", ""))
        found = access.namespaces(self.asker, VIEWER).filter(name__startswith=prefix, name__gt=after)
        homes = list(found.order_by("name")[: NAMESPACES_A_PAGE + 1])
        shown = homes[:NAMESPACES_A_PAGE]

        async def count(plane: Plane) -> list[Totals]:
            return await asyncio.gather(*(totals(plane.engine.look, home.name) for home in shown))

        lines = list(zip(shown, bridge().call(count), strict=True))
        below = shown[-1].name if len(homes) > NAMESPACES_A_PAGE else ""
        return self.page("Messages", lines=lines, prefix=prefix, below=below)


class TopicsPage(SupportView):
    template, tab = "topics.html", "topics"

    def get(self, request: HttpRequest, namespace: str) -> HttpResponse:
        prefix, after = clean(request.GET.get("prefix", "")), clean(request.GET.get("after", ""))
        found = access.topics(self.asker, namespace).filter(name__startswith=prefix, name__gt=after)
        topics = list(found.order_by("name")[: A_PAGE + 1])
        depths = bridge().call(lambda plane: look(plane, namespace, [topic.name for topic in topics[:A_PAGE]]))
        lines = [_line(topic, depth) for topic, depth in zip(topics, depths, strict=False)]
        below = topics[A_PAGE - 1].name if len(topics) > A_PAGE else ""
        return self.page(f"Topics of {namespace}", lines=lines, prefix=prefix, below=below)


class PausePage(SupportView):
    """A button: pause, or resume."""

    roles = {"POST": OPERATOR}

    def post(self, request: HttpRequest, namespace: str, topic: str) -> HttpResponse:
        with audit.changing():
            found = access.topic(self.asker, namespace, topic, OPERATOR)
            before = shapes.topic(found)
            settings = shapes.settings_of(found)
            settings.paused = request.POST.get("paused") == "yes"
            settings.save()
            found.settings = settings
            after = shapes.topic(found)
            if before != after:
                audit.note(self.asker, "topic.change", namespace, topic, before=before, after=after)
        word = "paused: it takes messages, and hands out none" if after.paused else "resumed"
        self.say(f"{topic} is {word}. Every process knows within two seconds.")
        return redirect("support:topics", namespace)


class PurgePage(SupportView):
    roles = {"GET": OPERATOR, "POST": OPERATOR}
    template, tab = "purge.html", "topics"

    def get(self, request: HttpRequest, namespace: str, topic: str) -> HttpResponse:
        found = access.topic(self.asker, namespace, topic, OPERATOR)
        (depth,) = bridge().call(lambda plane: look(plane, namespace, [found.name]))
        return self.page(f"Purge {found.name}?", topic=found.name, depth=depth, waiting=depth.ready + depth.scheduled)

    def post(self, request: HttpRequest, namespace: str, topic: str) -> HttpResponse:
        with audit.changing():
            found = access.topic(self.asker, namespace, topic, OPERATOR)
            made = jobs.make_job(
                self.asker,
                found.namespace,
                PURGE,
                filter=DeadFilter(),
                topic=found.name,
                with_dead="dead" in request.POST,
                is_dry_run="dry_run" in request.POST,
                rate_per_s=whole(request, "rate_per_s", 100_000),
            )
        return redirect("support:job", namespace, made.pk)


async def look(plane: Plane, namespace: str, topics: list[str]) -> list[Depth]:
    """Of each; one that no message has come to yet has nothing."""
    pages = await asyncio.gather(*(plane.engine.look.stats(StatsPage(namespace, topic)) for topic in topics))
    return [
        page[0] if page else Depth(namespace, topic, 0, 0, 0, 0, None)
        for topic, page in zip(topics, pages, strict=True)
    ]


def clean(text: str) -> str:
    return text.strip().replace("\0", "")


def _line(topic: Topic, depth: Depth) -> Line:
    settings = reverse("admin:tenants_topic_change", args=[topic.pk])
    return Line(topic.name, shapes.topic(topic).paused, depth, age(depth.oldest_ready_age_ms), settings)


def age(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    seconds: Any = milliseconds / 1000
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"
