"""`namespaces/` and `namespaces/{ns}/`."""

from datetime import UTC, datetime
from typing import ClassVar

from django.http import HttpResponse
from msgspec import UNSET
from rest_framework.request import Request

from mqueue.api.control.base import ControlView, answer, nothing
from mqueue.api.control.emptiness import require_empty
from mqueue.api.control.pages import page
from mqueue.api.control.reading import read_body, read_query
from tenants import access, audit, deletion, shapes
from tenants.records import Deletion, NamespaceChange, NamespacePage
from tenants.rules import ADMIN, OWNER, VIEWER


class NamespacesView(ControlView):
    roles = {"GET": VIEWER}

    def get(self, request: Request) -> HttpResponse:
        wanted = read_query(request, NamespacePage)
        found = access.namespaces(self.asker).filter(name__startswith=wanted.prefix)
        return page(found, wanted, "name", shapes.namespace)


class NamespaceView(ControlView):
    roles: ClassVar[dict[str, str]] = {"GET": VIEWER, "PUT": ADMIN, "PATCH": ADMIN, "DELETE": OWNER}

    def get(self, request: Request, namespace: str) -> HttpResponse:
        return answer(shapes.namespace(access.namespace(self.asker, namespace)))

    def put(self, request: Request, namespace: str) -> HttpResponse:
        """An owner makes it; what is there may be changed by its admin too."""
        change = read_body(request, NamespaceChange)
        with audit.changing():
            found, is_new = access.namespace_to_put(self.asker, namespace)
            before = None if is_new else shapes.namespace(found)
            found.description = "" if change.description is UNSET else change.description
            found.save()
            action = "namespace.create" if is_new else "namespace.change"
            audit.note(self.asker, action, namespace, namespace, before=before, after=shapes.namespace(found))
        return answer(shapes.namespace(found), 201 if is_new else 200)

    def patch(self, request: Request, namespace: str) -> HttpResponse:
        change = read_body(request, NamespaceChange)
        with audit.changing():
            found = access.namespace(self.asker, namespace, ADMIN)
            before = shapes.namespace(found)
            if change.description is not UNSET:
                found.description = change.description
                found.save(update_fields=["description"])
            after = shapes.namespace(found)
            audit.note(self.asker, "namespace.change", namespace, namespace, before=before, after=after)
        return answer(shapes.namespace(found))

    def delete(self, request: Request, namespace: str) -> HttpResponse:
        """Not while it has messages, unless by force: then they stay on their shards until retention drops them."""
        access.namespace(self.asker, namespace, OWNER)
        if not read_query(request, Deletion).force:
            require_empty(namespace)
        with audit.changing():
            found = access.namespace(self.asker, namespace, OWNER)
            before = shapes.namespace(found)
            deletion.delete_namespace(found, datetime.now(UTC))
            audit.note(self.asker, "namespace.delete", namespace, namespace, before=before)
        return nothing()
