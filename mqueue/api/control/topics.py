"""`namespaces/{ns}/topics/` and `…/topics/{topic}/`."""

from datetime import UTC, datetime
from typing import Any, ClassVar

from django.http import HttpResponse
from msgspec import UNSET, UnsetType
from rest_framework.request import Request

from mqueue.api.control.base import ControlView, answer, nothing
from mqueue.api.control.emptiness import require_empty
from mqueue.api.control.pages import page
from mqueue.api.control.reading import read_body, read_query
from mqueue.core.conf import DAY_MS, conf
from tenants import access, audit, deletion, models, shapes
from tenants.keyring import invalid
from tenants.records import Deletion, RateChange, RetryChange, TopicChange, TopicPage
from tenants.rules import OPERATOR, VIEWER

RETRY = tuple(RetryChange.__struct_fields__)
RATE = tuple(RateChange.__struct_fields__)
PLAIN = tuple(name for name in TopicChange.__struct_fields__ if name not in ("retry", "rate"))


class TopicsView(ControlView):
    roles = {"GET": VIEWER}

    def get(self, request: Request, namespace: str) -> HttpResponse:
        wanted = read_query(request, TopicPage)
        found = access.topics(self.asker, namespace).filter(name__startswith=wanted.prefix)
        if wanted.paused is not None:
            paused = found.filter(settings__paused=True)
            found = paused if wanted.paused else found.exclude(settings__paused=True)
        if wanted.durability is not None:
            buffered = found.filter(settings__durability="buffered")
            found = buffered if wanted.durability == "buffered" else found.exclude(settings__durability="buffered")
        return page(found, wanted, "name", shapes.topic)


class TopicView(ControlView):
    roles: ClassVar[dict[str, str]] = {"GET": VIEWER, "PUT": OPERATOR, "PATCH": OPERATOR, "DELETE": OPERATOR}

    def get(self, request: Request, namespace: str, topic: str) -> HttpResponse:
        return answer(shapes.topic(access.topic(self.asker, namespace, topic)))

    def put(self, request: Request, namespace: str, topic: str) -> HttpResponse:
        change = read_change(request)
        with audit.changing():
            found, is_new = access.topic_to_put(self.asker, namespace, topic)
            before = None if is_new else shapes.topic(found)
            replace(found, change)
            action = "topic.create" if is_new else "topic.change"
            audit.note(self.asker, action, namespace, topic, before=before, after=shapes.topic(found))
        return answer(shapes.topic(found), 201 if is_new else 200)

    def patch(self, request: Request, namespace: str, topic: str) -> HttpResponse:
        change = read_change(request)
        with audit.changing():
            found = access.topic(self.asker, namespace, topic, OPERATOR)
            before = shapes.topic(found)
            amend(found, change)
            audit.note(self.asker, "topic.change", namespace, topic, before=before, after=shapes.topic(found))
        return answer(shapes.topic(found))

    def delete(self, request: Request, namespace: str, topic: str) -> HttpResponse:
        access.topic(self.asker, namespace, topic, OPERATOR)
        if not read_query(request, Deletion).force:
            require_empty(namespace, topic)
        with audit.changing():
            found = access.topic(self.asker, namespace, topic, OPERATOR)
            before = shapes.topic(found)
            deletion.delete_topic(found, datetime.now(UTC))
            audit.note(self.asker, "topic.delete", namespace, topic, before=before)
        return nothing()


def read_change(request: Request) -> TopicChange:
    change = read_body(request, TopicChange)
    least = 1 + -(-conf().retention.dedupe_window_ms // DAY_MS)
    if isinstance(change.retention_days, int) and change.retention_days < least:
        raise invalid("retention_days", f"at least {least}: a key must not outlive the message that it names")
    return change


def replace(topic: models.Topic, change: TopicChange) -> None:
    """What the change does not say is at its default."""
    settings = shapes.settings_of(topic)
    for name, default in settings.cleared().items():
        setattr(settings, name, default)
    topic.settings = settings
    amend(topic, change)


def amend(topic: models.Topic, change: TopicChange) -> None:
    settings = shapes.settings_of(topic)
    _apply(settings, change)
    settings.save()
    topic.settings = settings


def _apply(settings: models.TopicSettings, change: TopicChange) -> None:
    for name in PLAIN:
        _set(settings, name, getattr(change, name))
    settings.paused = settings.paused or False
    _set_each(settings, "retry", RETRY, change.retry)
    _set_each(settings, "rate", RATE, change.rate)


def _set_each(settings: models.TopicSettings, group: str, names: tuple[str, ...], given: Any) -> None:
    for name in names:
        _set(
            settings, f"{group}_{name}", getattr(given, name) if isinstance(given, RetryChange | RateChange) else given
        )


def _set(settings: models.TopicSettings, name: str, value: Any | UnsetType) -> None:
    if value is not UNSET:
        setattr(settings, name, value)
