"""What every view of the control plane is: who asks, and whether he may, comes before anything else."""

from typing import Any, ClassVar

import msgspec
from django.db import InterfaceError, OperationalError
from django.http import HttpResponse
from rest_framework import exceptions
from rest_framework.authentication import SessionAuthentication
from rest_framework.request import Request

from mqueue.api import plane
from mqueue.api.handlers import FRESH
from mqueue.api.views import CREDENTIALS, MEASURES, PlaneView, TokenAuthentication, headers_of
from mqueue.core.errors import ControlUnavailable, Forbidden, Unauthenticated
from tenants.askers import Asker, asker_of
from tenants.rules import ADMIN_SCOPE


class CredentialAuthentication(TokenAuthentication):
    """By token or API key, where there is one; otherwise a session may do."""

    def authenticate(self, request: Request) -> tuple[Any, None] | None:  # type: ignore[override]
        return super().authenticate(request) if headers_of(request, CREDENTIALS) else None


class ControlView(PlaneView):
    """`roles` names the methods that a view takes, and the role in the namespace that each of them needs; of a token,
    the scope `admin` or that of the view."""

    authentication_classes = [CredentialAuthentication, SessionAuthentication]
    roles: ClassVar[dict[str, str]] = {}
    scope: ClassVar[str] = ADMIN_SCOPE
    asker: Asker

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        method = str(request.method)
        plane.require_method(method, self.roles.keys() | ({"HEAD"} if "GET" in self.roles else set()))
        super().initial(request, *args, **kwargs)
        self.asker = asker_of(request.user)
        if namespace := kwargs.get("namespace"):
            self.asker.require(namespace, self.roles["GET" if method == "HEAD" else method], self.scope)
        plane.require_json("POST" if method == "PUT" else method, headers_of(request, MEASURES))

    def handle_exception(self, exc: Exception) -> HttpResponse:  # type: ignore[override]
        return super().handle_exception(_as_ours(exc))


def answer(body: Any, status: int = 200) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(body), status=status, headers=FRESH)


def nothing() -> HttpResponse:
    done = HttpResponse(status=204, headers={"cache-control": "no-store"})
    del done["content-type"]
    return done


def _as_ours(error: Exception) -> Exception:
    if isinstance(error, exceptions.PermissionDenied):
        return Forbidden(str(error.detail))  # a session without its CSRF token
    if isinstance(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
        return Unauthenticated("A token, an API key or a session is needed")
    if isinstance(error, OperationalError | InterfaceError):
        return ControlUnavailable(retry_after_s=1.0)
    return error
