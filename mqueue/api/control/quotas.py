"""`namespaces/{ns}/quotas/`."""

from typing import ClassVar

from django.http import HttpResponse
from msgspec import UNSET, structs
from rest_framework.request import Request

from mqueue.api.control.base import ControlView, answer
from mqueue.api.control.reading import read_body
from tenants import access, audit, models, shapes
from tenants.records import QuotaChange
from tenants.rules import ADMIN, VIEWER

FIELDS = tuple(QuotaChange.__struct_fields__)


class QuotasView(ControlView):
    roles: ClassVar[dict[str, str]] = {"GET": VIEWER, "PUT": ADMIN, "PATCH": ADMIN}

    def get(self, request: Request, namespace: str) -> HttpResponse:
        return answer(shapes.quotas(*access.quota(self.asker, namespace)))

    def put(self, request: Request, namespace: str) -> HttpResponse:
        given = structs.asdict(read_body(request, QuotaChange))
        return self._change(namespace, {name: None if value is UNSET else value for name, value in given.items()})

    def patch(self, request: Request, namespace: str) -> HttpResponse:
        given = structs.asdict(read_body(request, QuotaChange))
        return self._change(namespace, {name: value for name, value in given.items() if value is not UNSET})

    def _change(self, namespace: str, change: dict[str, int | None]) -> HttpResponse:
        with audit.changing():
            home, found = access.quota(self.asker, namespace, ADMIN)
            before = shapes.quotas(home, found)
            after = structs.replace(before, **change)
            quota = found or models.Quota(namespace=home)
            for name in FIELDS:
                setattr(quota, name, getattr(after, name))
            quota.save()
            audit.note(self.asker, "quotas.change", namespace, namespace, before=before, after=after)
        return answer(after)
