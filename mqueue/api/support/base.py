"""What every page is: who asks, and whether he may, comes first; what goes wrong is a page too."""

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponseBase
from django.template.response import TemplateResponse
from django.views import View
from msgspec import Struct

from mqueue.core.errors import ControlUnavailable, Forbidden, MqueueError
from tenants import audit
from tenants.askers import Asker, asker_of
from tenants.rules import OPERATOR, VIEWER

TABS = ("topics", "dlq", "failures", "jobs", "usage")


class SupportView(View):
    """`roles` names the methods that a page takes, and the role that each of them needs."""

    roles: ClassVar[dict[str, str]] = {"GET": VIEWER}
    template: ClassVar[str] = ""
    tab: ClassVar[str] = ""
    asker: Asker
    namespace = ""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            self.asker = asker_of(request.user)
            method = "GET" if request.method == "HEAD" else str(request.method)
            if method not in self.roles:
                return self.http_method_not_allowed(request)
            if namespace := kwargs.get("namespace"):
                self.asker.require(namespace, self.roles[method])
                self.namespace = namespace
            answer: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        except MqueueError as error:
            answer = self.problem(error)
        except (OperationalError, InterfaceError):
            answer = self.problem(ControlUnavailable())
        answer["Cache-Control"] = "no-store"
        return answer

    def page(self, title: str, template: str = "", **shown: Any) -> TemplateResponse:
        more = {
            "title": title,
            "namespace": self.namespace,
            "tabs": TABS if self.namespace else (),
            "tab": self.tab,
            "may_change": bool(self.namespace) and self.may(OPERATOR),
        }
        context = admin.site.each_context(self.request) | more | shown
        return TemplateResponse(self.request, f"support/{template or self.template}", context)

    def problem(self, error: MqueueError) -> TemplateResponse:
        answer = self.page(error.title, "problem.html", error=error, tabs=())
        answer.status_code = error.http_status
        return answer

    def may(self, role: str) -> bool:
        try:
            self.asker.require(self.namespace, role)
        except Forbidden:
            return False
        return True

    def say(self, text: str) -> None:
        messages.success(self.request, text)

    def note(self, action: str, target: str, after: Struct) -> None:
        audit.note(self.asker, action, self.namespace, target, after=after)
