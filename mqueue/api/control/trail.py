"""`namespaces/{ns}/audit/`: who did what, the newest first."""

from typing import ClassVar

from django.http import HttpResponse
from rest_framework.request import Request

from mqueue.api.control.base import ControlView
from mqueue.api.control.pages import page
from mqueue.api.control.reading import read_query
from tenants import access, shapes
from tenants.records import AuditPage
from tenants.rules import ADMIN


class AuditView(ControlView):
    roles: ClassVar[dict[str, str]] = {"GET": ADMIN}

    def get(self, request: Request, namespace: str) -> HttpResponse:
        wanted = read_query(request, AuditPage)
        given = {"action": wanted.action, "actor": wanted.actor, "at__gte": wanted.since, "at__lt": wanted.until}
        found = access.audit(self.asker, namespace)
        found = found.filter(**{name: value for name, value in given.items() if value is not None})
        return page(found, wanted, "-id", shapes.audit_entry)
