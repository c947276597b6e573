"""`namespaces/{ns}/keys/` and `…/keys/{kid}/`."""

from typing import Any, ClassVar, cast

from django.http import HttpResponse
from msgspec import UNSET
from rest_framework.request import Request

from mqueue.api.control.base import ControlView, answer, nothing
from mqueue.api.control.pages import page
from mqueue.api.control.reading import read_body, read_query
from mqueue.api.control.records import Key, KeyPage, KeyRequest, as_record
from mqueue.core import credentials
from tenants import access, audit, models
from tenants.keyring import make_key, revoke_key
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
        return page(found, wanted, "-id", shape)

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
            audit.note(self.asker, "key.create", namespace, made.kid, after=as_record(shape(made)))
        return answer(shape(made, secret), 201)


class KeyView(ControlView):
    roles: ClassVar[dict[str, str]] = {"GET": ADMIN, "DELETE": ADMIN}

    def get(self, request: Request, namespace: str, kid: str) -> HttpResponse:
        return answer(shape(access.key(self.asker, namespace, kid)))

    def delete(self, request: Request, namespace: str, kid: str) -> HttpResponse:
        with audit.changing():
            found = access.key(self.asker, namespace, kid)
            before = as_record(shape(found))
            if revoke_key(found):
                after = as_record(shape(found))
                audit.note(self.asker, "key.revoke", namespace, kid, before=before, after=after)
        return nothing()


def shape(found: models.Key, secret: str = "") -> Key:
    return Key(
        kid=found.kid,
        name=found.name,
        kind=cast("Any", found.kind),
        scopes=cast("Any", found.scopes),
        created_at=found.created_at,
        created_by=found.created_by,
        expires_at=found.expires_at,
        revoked_at=found.revoked_at,
        last_used_at=found.last_used_at,
        prefix=credentials.shown(found.kid) if found.kind == credentials.API_KEY else UNSET,
        public_key=bytes(found.material).decode() if found.kind in credentials.PUBLIC else UNSET,
        secret=secret or UNSET,
    )
