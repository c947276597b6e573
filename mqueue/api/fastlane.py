"""The ASGI adapter of the data plane: the same handlers as the URLconf's, without Django's request cycle."""

from collections.abc import Awaitable, Callable
from typing import Any

from mqueue.api import plane
from mqueue.api.handlers import Answer, Request, route
from mqueue.api.plane import METRICS, OPEN_PATHS, Plane
from mqueue.api.presence import Watched
from mqueue.core.conf import Conf

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class FastLane:
    def __init__(self, conf: Conf) -> None:
        self.plane = self._plane = Plane(conf)
        self.open, self.close = self._plane.open, self._plane.close

    serves = staticmethod(plane.serves)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status, headers, body = await self._answer(scope, receive)
        except Exception as error:  # noqa: BLE001  whatever it is, the client gets an answer
            status, headers, body = plane.refusal(error, scope["method"], scope["path"])
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        pairs.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path, method = scope["path"], scope["method"]
        if path in OPEN_PATHS:
            plane.require_method(method, plane.LOOKS)
            return await self._plane.health.answer(path)
        if path == METRICS:
            plane.require_method(method, plane.LOOKS)
            return await self._plane.metrics({name.lower(): value for name, value in scope["headers"]})
        found = route(path)
        assert found  # serves() saw to it
        handlers, message_id = found
        plane.require_method(method, handlers)
        headers = {name.lower(): value for name, value in scope["headers"]}
        principal = await self._plane.principal(headers)
        plane.require_json(method, headers)
        plane.require_size(headers)
        body = await _body(receive)
        plane.require_whole(headers, body)
        request = Request(method, path, scope["query_string"], body, message_id, Watched(receive))
        return await handlers[method](self._plane.engine, principal, request)


async def _body(receive: Receive) -> bytes:
    chunks, size = [], 0
    while True:
        message = await receive()
        chunk = message.get("body", b"")
        chunks.append(chunk)
        size += len(chunk)
        plane.require_fits(size)
        if not message.get("more_body"):
            return b"".join(chunks) if len(chunks) > 1 else chunk
