"""A foreigner is refused before anything is looked at, on every route: so nothing that exists can show."""

import asyncio
import re
from typing import Any, NoReturn

import pytest
from django.db import connections
from django.test import RequestFactory
from django.urls import get_resolver
from django.urls.resolvers import URLPattern, URLResolver
from rest_framework.request import Request as DrfRequest

from mqueue.api.control.base import ControlView
from mqueue.api.control.urls import VIEWS
from mqueue.api.handlers import ROUTES, Request
from mqueue.api.openapi.operations import OPERATIONS
from mqueue.api.views import MetricsView, OpenView, VerbView
from mqueue.core.conf import ROOT
from mqueue.core.errors import Forbidden
from mqueue.core.principals import Principal
from tests.foreign import asked_of

FOREIGN = {
    "root key": Principal("me", frozenset(("mine",)), frozenset(("*",)), 2e9),
    "root key without a scope": Principal("me", frozenset(("theirs",)), frozenset(("mine:*",)), 2e9),
    "namespace key": Principal("me", frozenset(("mine",)), frozenset(("mine:*",)), 2e9, "k"),
    "namespace key for nothing": Principal("me", frozenset(), frozenset(("mine:*",)), 2e9, "k"),
}
BESIDE = {"admin/", "admin/login/", "admin/password_change/", "", "api/schema/", "api/docs/"}  # not of any namespace


class Untouchable:
    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"{name} was touched")


@pytest.mark.parametrize("who", FOREIGN)
@pytest.mark.parametrize(("path", "method"), [(path, method) for path, verbs in ROUTES.items() for method in verbs])
def test_a_verb_refuses_before_it_touches_the_engine(path: str, method: str, who: str) -> None:
    url, query, body = asked_of(path, method.lower(), OPERATIONS[path][method.lower()], "theirs")
    request = Request(method, url, query, body, "5" if "{id}" in path else "")
    with pytest.raises(Forbidden):
        asyncio.run(ROUTES[path][method](Untouchable(), FOREIGN[who], request))  # type: ignore[arg-type]


@pytest.fixture
def no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("the database was asked")

    for connection in connections.all():
        monkeypatch.setattr(connection, "cursor", refuse)


OF_NAMESPACES = {path: view for path, view in VIEWS.items() if "{namespace}" in path}


@pytest.mark.usefixtures("no_database")
@pytest.mark.parametrize("who", FOREIGN)
@pytest.mark.parametrize("path", OF_NAMESPACES)
def test_a_view_refuses_before_it_asks_the_database(path: str, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    view = OF_NAMESPACES[path]
    monkeypatch.setattr(DrfRequest, "_authenticate", lambda self: setattr(self, "user", FOREIGN[who]))
    for method in view.roles:
        request = RequestFactory().generic(method, path, b"\xff", content_type="text/plain")
        named = {"namespace": "theirs", "topic": "t", "kid": "0" * 16, "user": "u", "job": "5"}
        answer = view.as_view()(request, **{name: value for name, value in named.items() if f"{{{name}}}" in path})
        assert answer.status_code == 403
    assert view.roles, "a view that takes nothing"


def test_every_path_that_django_serves_is_known_to_these_tests() -> None:
    for pattern in get_resolver().url_patterns:
        served = str(pattern.pattern)
        assert isinstance(pattern, URLPattern) or (isinstance(pattern, URLResolver) and served == "admin/")
        view = getattr(pattern.callback, "view_class", None) or getattr(pattern.callback, "cls", None)
        if issubclass(view or object, ControlView):
            assert VIEWS[as_described(served)] is view
        elif issubclass(view or object, VerbView):
            assert as_described(served).replace("message_id", "id") in ROUTES
        else:
            assert served in BESIDE or issubclass(view or object, OpenView | MetricsView)


def as_described(served: str) -> str:
    return "/" + served.replace("<str:", "{").replace(">", "}")


def test_only_the_door_loads_records_for_somebody() -> None:
    """A view that asked a manager itself could forget to ask whether it may."""
    for room in ("mqueue/api", "tenants/admin"):
        for path in (ROOT / room).rglob("*.py"):
            assert not re.search(r"\.objects\b|_manager\b", path.read_text()), path
