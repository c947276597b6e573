"""The ASGI adapter of the data plane: the same handlers as the URLconf's, without Django's request cycle."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from mqueue.api.handlers import Answer, Request, route
from mqueue.api.health import Health
from mqueue.api.presence import Watched
from mqueue.api.problems import problem
from mqueue.core.conf import Conf
from mqueue.core.errors import MethodNotAllowed, MqueueError, TooLarge, Unauthenticated, UnsupportedMedia
from mqueue.core.messages import MAX_REQUEST
from mqueue.core.tokens import Principal, Verifier
from mqueue.engine.engine import Engine

log = logging.getLogger(__name__)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
OPEN_PATHS = frozenset({"/health", "/live", "/ready"})


class FastLane:
    def __init__(self, conf: Conf) -> None:
        self._engine = Engine(conf)
        self._health = Health(conf, self._engine)
        self._verifier = Verifier(conf.jwt_secret)

    @staticmethod
    def serves(path: str) -> bool:
        return path in OPEN_PATHS or route(path) is not None

    async def open(self) -> None:
        await self._engine.open()

    async def close(self) -> None:
        await self._engine.close()
        await self._health.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status, headers, body = await self._answer(scope, receive)
        except MqueueError as error:
            status, headers, body = problem(error)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            status, headers, body = problem(MqueueError("This is our fault; the service's log says more."))
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        pairs.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path, method = scope["path"], scope["method"]
        if path in OPEN_PATHS:
            _require_method(method, {"GET", "HEAD"})
            return await self._health.answer(path)
        found = route(path)
        assert found  # serves() saw to it
        handlers, message_id = found
        _require_method(method, handlers)
        headers = {name.lower(): value for name, value in scope["headers"]}
        principal = self._principal(headers)
        if method in ("POST", "PATCH"):
            _require_json(headers.get(b"content-type", b""))
        body = await _body(receive, headers)
        request = Request(method, path, scope["query_string"], body, message_id, Watched(receive))
        return await handlers[method](self._engine, principal, request)

    def _principal(self, headers: dict[bytes, bytes]) -> Principal:
        given = headers.get(b"authorization") or headers.get(b"authorisation") or b""
        scheme, _, token = given.partition(b" ")
        if scheme.lower() != b"bearer":
            raise Unauthenticated
        return self._verifier.verify(token.strip().decode("latin-1"))


def _require_method(method: str, allowed: Iterable[str]) -> None:
    if method not in allowed:
        names = ", ".join(sorted(allowed))
        raise MethodNotAllowed(f"This path takes {names}", headers={"allow": names})


def _require_json(content_type: bytes) -> None:
    """None at all is taken for JSON; a form, which is what a bare `curl -d` sends, is not."""
    kind = content_type.partition(b";")[0].strip().lower()
    if kind and kind != b"application/json":
        raise UnsupportedMedia(f"The body has to be application/json, not {kind.decode('latin-1')}")


async def _body(receive: Receive, headers: dict[bytes, bytes]) -> bytes:
    announced = headers.get(b"content-length", b"0")
    if announced.isdigit() and int(announced) > MAX_REQUEST:
        raise TooLarge(f"The request is over {MAX_REQUEST} bytes")
    chunks, size = [], 0
    while True:
        message = await receive()
        chunk = message.get("body", b"")
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_REQUEST:
            raise TooLarge(f"The request is over {MAX_REQUEST} bytes")
        if not message.get("more_body"):
            return b"".join(chunks) if len(chunks) > 1 else chunk
