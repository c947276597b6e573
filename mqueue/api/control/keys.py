"""`namespaces/{ns}/keys/` and `…/keys/{kid}/`."""

from typing import ClassVar, cast

from django.http import HttpResponse
from rest_framework.request import Request

from mqueue.api.control.base import ControlView, answer, nothing
from mqueue.api.control.pages import page
from mqueue.api.control.reading import read_body, read_query
from tenants import access, audit, shapes
from tenants.keyring import make_key, revoke_key
from tenants.records import KeyPage, KeyRequest
from tenants.rules import ADMIN


class KeysView(ControlView):
    roles: ClassVar[dict[str, str]] = {"GET": ADMIN, "POST": ADMIN}

    def get(self, request: Request, namespace: str) -> HttpResponse:
        wanted = read_query(request, KeyPage)
        found = access.keys(self.asker, namespace)
        if wanted.state is not None:
            found = found.filter(revoked_at__isnull=wanted.state == "live")
        if wanted.kind is not None:
            found = found.filter(kind=wanted.kind)
        return page(found, wanted, "-id", shapes.key)

    def post(self, request: Request, namespace: str) -> HttpResponse:
        asked = read_body(request, KeyRequest)
        with audit.changing():
            made, secret = make_key(
                self.asker,
                access.namespace(self.asker, namespace, ADMIN),
                kind=asked.kind,
                name=asked.name,
                scopes=cast("list[str] | None", asked.scopes),
                public_key=asked.public_key,
                expires_at=asked.expires_at,
            )
            audit.note(self.asker, "key.create", namespace, made.kid, after=shapes.key(made))
        return answer(shapes.key(made, secret), 201)


class KeyView(ControlView):
    roles: ClassVar[dict[str, str]] = {"GET": ADMIN, "DELETE": ADMIN}

    def get(self, request: Request, namespace: str, kid: str) -> HttpResponse:
        return answer(shapes.key(access.key(self.asker, namespace, kid)))

    def delete(self, request: Request, namespace: str, kid: str) -> HttpResponse:
        with audit.changing():
            found = access.key(self.asker, namespace, kid)
            before = shapes.key(found)
            if revoke_key(found):
                after = shapes.key(found)
                audit.note(self.asker, "key.revoke", namespace, kid, before=before, after=after)
        return nothing()
