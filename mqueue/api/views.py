"""The Django REST framework adapter of the data plane: generic views that call the same handlers as the fast lane.

It serves wherever the fast lane does not: with MQUEUE_FAST_LANE=false, under `runserver`, under any WSGI server, and
behind Django's test client. Bytes come and go as they are, so neither parsers nor renderers take part. A view in a
thread is not told that its client has left: what it leased comes again when the lease ends.
"""

from functools import partial
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.urls import URLPattern, path
from rest_framework.authentication import BaseAuthentication
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request as DrfRequest
from rest_framework.views import APIView

from mqueue.api import handlers, plane
from mqueue.api.bridge import bridge
from mqueue.api.handlers import Answer, Handler, Request
from mqueue.api.plane import LOOKS, METRICS, OPEN_PATHS, Plane
from mqueue.api.presence import Present
from mqueue.core.conf import conf
from mqueue.core.errors import Invalid
from mqueue.core.messages import MAX_REQUEST
from mqueue.core.tokens import Principal

CREDENTIALS = {
    b"authorization": "HTTP_AUTHORIZATION",
    b"authorisation": "HTTP_AUTHORISATION",
    b"x-api-key": "HTTP_X_API_KEY",
}
MEASURES = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}


class TokenAuthentication(BaseAuthentication):
    """By the token alone, so that no cookie is looked at and CSRF has no hold."""

    def authenticate(self, request: DrfRequest) -> tuple[Any, None]:
        headers = headers_of(request, CREDENTIALS)
        return bridge().call(lambda held: held.principal(headers)), None


class PlaneView(APIView):
    """One path; what it takes is judged by the rules and handlers of the data plane, not by Django's."""

    authentication_classes = [TokenAuthentication]
    permission_classes = []  # the handlers know what a request needs
    throttle_classes = []
    schema = None  # described by mqueue/api/openapi.py
    default_response_headers = {}
    is_limited = True  # by its address

    def initial(self, request: DrfRequest, *args: Any, **kwargs: Any) -> None:
        if self.is_limited and conf().api.ip_rate:
            peer, forwarded = (request.META.get(key) or "" for key in ("REMOTE_ADDR", "HTTP_X_FORWARDED_FOR"))
            bridge().call(lambda held: _admit(held, peer, forwarded))
        super().initial(request, *args, **kwargs)

    def perform_content_negotiation(self, request: DrfRequest, force: bool = False) -> tuple[Any, str]:
        """The answer is JSON whatever is asked for."""
        return JSONRenderer(), JSONRenderer.media_type

    def handle_exception(self, exc: Exception) -> HttpResponse:  # type: ignore[override]
        return _response(plane.refusal(exc, str(self.request.method), self.request.path))


class VerbView(PlaneView):
    handlers: ClassVar[dict[str, Handler]] = {}

    def initial(self, request: DrfRequest, *args: Any, **kwargs: Any) -> None:
        method = str(request.method)
        plane.require_method(method, self.handlers)
        super().initial(request, *args, **kwargs)
        headers = headers_of(request, MEASURES)
        plane.require_json(method, headers)
        plane.require_size(headers)

    def answer(self, request: DrfRequest, message_id: str = "") -> HttpResponse:
        method, principal = str(request.method), request.user
        assert isinstance(principal, Principal)
        query = request.META.get("QUERY_STRING", "").encode("utf-8", "surrogateescape")
        body, headers = _body(request), headers_of(request, CREDENTIALS)

        def asked(held: Plane) -> Request:
            client = Present(partial(held.verify, headers))
            return Request(method, request.path_info, query, body, message_id, client)

        return _response(bridge().call(lambda held: self.handlers[method](held.engine, principal, asked(held))))

    get = post = patch = delete = answer


class OpenView(PlaneView):
    """/health, /live and /ready."""

    authentication_classes = []
    is_limited = False

    def initial(self, request: DrfRequest, *args: Any, **kwargs: Any) -> None:
        plane.require_method(str(request.method), LOOKS)
        super().initial(request, *args, **kwargs)

    def get(self, request: DrfRequest) -> HttpResponse:
        return _response(bridge().call(lambda held: held.health.answer(request.path_info)))


class MetricsView(PlaneView):
    authentication_classes = []  # the plane asks for the token, and for what it carries

    def initial(self, request: DrfRequest, *args: Any, **kwargs: Any) -> None:
        plane.require_method(str(request.method), LOOKS)
        super().initial(request, *args, **kwargs)

    def get(self, request: DrfRequest) -> HttpResponse:
        headers = headers_of(request, CREDENTIALS | {b"accept": "HTTP_ACCEPT"})
        return _response(bridge().call(lambda held: held.metrics(headers)))


async def _admit(held: Plane, peer: str, forwarded: str) -> None:
    if held.peers:
        await held.peers.admit(peer, forwarded)


def headers_of(request: DrfRequest, wanted: dict[bytes, str]) -> dict[bytes, bytes]:
    """As the rules want them."""
    return {name: request.META[key].encode("latin-1") for name, key in wanted.items() if request.META.get(key)}


def _body(request: DrfRequest) -> bytes:
    """From the stream itself: `request.body` would refuse what is over Django's own limit."""
    django: HttpRequest = request._request  # noqa: SLF001  DRF has no other way to the bytes as they came
    chunks, size = [], 0
    try:
        while chunk := django.read(MAX_REQUEST + 1 - size):
            chunks.append(chunk)
            size += len(chunk)
            plane.require_fits(size)
    except UnreadablePostError as error:
        raise Invalid("The body ended too soon", errors=[]) from error
    return b"".join(chunks)


def _response(answer: Answer) -> HttpResponse:
    status, headers, body = answer
    return HttpResponse(body, status=status, headers=headers)


def urls() -> list[URLPattern]:
    verbs = [
        path(at.removeprefix("/").replace("{id}", "<str:message_id>"), VerbView.as_view(handlers=by_method))
        for at, by_method in handlers.ROUTES.items()
    ]
    open_ = [path(at.removeprefix("/"), OpenView.as_view()) for at in sorted(OPEN_PATHS)]
    return [*verbs, *open_, path(METRICS.removeprefix("/"), MetricsView.as_view())]
