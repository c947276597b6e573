"""The data plane without Django's request cycle: the rules that come before a handler, in their order, and the handler.

Our own server calls `answer` from its protocol (`wire.py`); any other ASGI server calls the application.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from mqueue.api import plane
from mqueue.api.handlers import ROUTES, Answer, Request, route
from mqueue.api.heads import ASKED, Head, Sight, is_plain
from mqueue.api.peers import Peers
from mqueue.api.plane import METRICS, OPEN_PATHS, Headers, Plane
from mqueue.api.presence import Present, Watched
from mqueue.core.conf import Conf
from mqueue.core.errors import MqueueError

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class FastLane:
    def __init__(self, conf: Conf) -> None:
        self.plane = Plane(conf)
        self.open, self.close = self.plane.open, self.plane.close

    serves = staticmethod(plane.serves)

    async def answer(  # noqa: PLR0917
        self, method: str, path: str, query: bytes, headers: Headers, body: bytes, client: Present
    ) -> Answer:
        """To a request that is here as a whole."""
        try:
            if path in OPEN_PATHS:
                plane.require_method(method, plane.LOOKS)
                return await self.plane.health.answer(path)
            if self.plane.peers:
                await self._admit(self.plane.peers, client, headers)
            if path == METRICS:
                plane.require_method(method, plane.LOOKS)
                return await self.plane.metrics(headers)
            found = route(path)
            assert found  # serves() saw to it
            handlers, message_id = found
            plane.require_method(method, handlers)
            principal = await self.plane.principal(headers)
            plane.require_json(method, headers)
            plane.require_whole(headers, body)
            request = Request(method, path, query, body, message_id, client)
            return await handlers[method](self.plane.engine, principal, request)
        except Exception as error:  # noqa: BLE001  whatever it is, the client gets an answer
            return plane.refusal(error, method, path)

    async def answer_again(self, head: Head, body: bytes, client: Present) -> Answer:
        """To a request whose head is remembered: the rules that may have another outcome today."""
        try:
            if self.plane.peers:
                await self._admit(self.plane.peers, client, head.headers)
            principal = await self.plane.principal(head.headers)
            request = Request(head.method, head.path, head.query, body, "", client)
            return await head.handler(self.plane.engine, principal, request)
        except Exception as error:  # noqa: BLE001  whatever it is, the client gets an answer
            return plane.refusal(error, head.method, head.path)

    @staticmethod
    async def _admit(peers: Peers, client: Present, headers: Headers) -> None:
        await peers.admit(client.peer, headers.get(b"x-forwarded-for", b"").decode("latin-1"))

    def head(self, seen: Sight, method: str, path: str, query: bytes, headers: Headers) -> Head | None:
        """A head to remember, if we know who sends it, and it keeps the rules that look at nothing else."""
        handler = ROUTES.get(path, {}).get(method)
        if not handler or not is_plain(seen, headers):
            return None
        try:
            self.plane.verify(headers)
            plane.require_json(method, headers)
        except MqueueError:
            return None
        asked = {name: value for name, value in headers.items() if name in ASKED}
        return Head(method, path, query, asked, handler)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"]
        headers = {name.lower(): value for name, value in scope["headers"]}
        try:
            plane.require_size(headers)
            body = await _body(receive)
        except Exception as error:  # noqa: BLE001
            answer = plane.refusal(error, method, path)
        else:
            client = Watched(receive, partial(self.plane.verify, headers), (scope.get("client") or ("",))[0])
            answer = await self.answer(method, path, scope["query_string"], headers, body, client)
        status, more, content = answer
        pairs = [(name.encode(), value.encode()) for name, value in more.items()]
        pairs.append((b"content-length", str(len(content)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else content})


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
