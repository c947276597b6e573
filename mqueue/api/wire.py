"""HTTP/1.1 for our own server: uvicorn's protocol, with a way of its own for the data plane.

uvicorn knows the connection: parsing (llhttp), keep-alive, pipelining, flow control, an orderly end. What goes to
Django goes its usual way, through ASGI. A request of the data plane needs none of what ASGI makes for it (a scope, an
event, messages to and fro): here it is taken as a whole, and answered with one write. The figures are in
docs/decisions/0011-one-thread-http.md.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mqueue.api import plane
from mqueue.api.bodies import COUNTED_FROM, Bodies
from mqueue.api.fastlane import FastLane
from mqueue.api.handlers import Answer
from mqueue.api.heads import Head, Heads, Sight, sight
from mqueue.api.presence import Present, first
from mqueue.api.problems import problem
from mqueue.core.errors import HeadTooLarge, Invalid, MqueueError, Overloaded, TooLarge, UnknownKey
from mqueue.core.messages import MAX_REQUEST
from mqueue.core.principals import Principal

T = TypeVar("T")
MAX_HEAD = 64 * 1024
IDLE_S, LOOK_EVERY_S, LOOK_AGAIN_S = 75.0, 5.0, 0.1
MOST_BEHIND, LARGE = 200, 64 * 1024  # requests that wait for the one before them, and one that is enough by itself
LAST_WORD_S = 1.0  # of silence after which a connection of a process that is to end is closed
LAST_POLL_S = 0.2  # for a message, once the process is to end
LINGER_S = 2.0  # for a client that still sends what was refused, so that it sees why


class TooMuchHead(Exception):
    """The parser ends with an error of its own."""


class _NoEvent:
    """Where uvicorn would wake a task that waits for the body: ours begins when the body is there."""

    def set(self) -> None: ...


class Exchange(Present):
    """One request of the data plane and its answer; uvicorn takes it for one of its cycles."""

    __slots__ = (
        "body", "counted", "disconnected", "error", "head", "headers", "is_known", "is_whole", "keep_alive", "method",
        "path", "query", "response_complete", "size", "task", "wire",
    )  # fmt: skip
    message_event = _NoEvent()

    def __init__(self, wire: "Wire", method: str, path: str, query: bytes, headers: Mapping[bytes, bytes]) -> None:
        self.wire, self.method, self.path, self.query, self.headers = wire, method, path, query, headers
        self.body: bytes | list[bytes] = b""
        self.size = self.counted = 0  # bytes that came, and those that count among the bodies that are held
        self.keep_alive = True
        self.is_whole = self.disconnected = self.response_complete = False
        self.is_known: bool | None = None  # who sends it; asked when it becomes large
        self.error: MqueueError | None = None  # it is refused before it is here as a whole
        self.head: Head | None = None  # it came with one that is remembered
        self.task: asyncio.Task[None] | None = None

    @property
    def has_left(self) -> bool:  # type: ignore[override]
        return self.wire.transport.is_closing()

    @property
    def peer(self) -> str:  # type: ignore[override]
        client = self.wire.client
        return client[0] if client else ""

    def unless_left(self, work: Coroutine[Any, Any, T], *, waits: bool) -> Coroutine[Any, Any, T | None]:
        return self._unless_left(work) if waits else work

    async def _unless_left(self, work: Coroutine[Any, Any, T]) -> T | None:
        wire = self.wire
        wire.waiting = wire.loop.create_future()
        if wire.is_ending:
            wire.loop.call_later(LAST_POLL_S, wire.end_waiting)
        try:
            return await first(work, wire.waiting)
        finally:
            wire.waiting = None

    def verify_again(self) -> Principal | None:
        return self.wire.lane.plane.verify(self.headers) if self.wire.lane else None

    def add(self, body: bytes) -> None:
        self.size += len(body)
        if not self.body:
            self.body = body
        elif isinstance(self.body, list):
            self.body.append(body)
        else:
            self.body = [self.body, body]

    async def run(self) -> None:
        """What `_start_asgi_task` makes a task of."""
        wire = self.wire
        try:
            if self.error:
                wire.reply(self, problem(self.error))
                return
            assert wire.lane  # or it would be Django's
            body = b"".join(self.body) if isinstance(self.body, list) else self.body
            self.body = b""
            if self.head:
                answer = await wire.lane.answer_again(self.head, body, self)
            else:
                answer = await wire.lane.answer(self.method, self.path, self.query, self.headers, body, self)
            if wire.flow.write_paused:  # the client has not read what it got before
                await wire.flow.drain()
            wire.reply(self, answer)
        finally:
            wire.tasks.discard(self.task)


class Wire(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lane: FastLane | None = self.app_state["lane"]
        self.open_wires: set[Wire] = self.app_state["wires"]
        self.heads: Heads = self.app_state["heads"]
        self.bodies: Bodies = self.app_state["bodies"]
        self.waiting: asyncio.Future[None] | None = None  # of a long poll: done when it is to end early
        self.since = self.loop.time()  # when it last answered, or a request began to come
        self.is_ending = False  # the process is: the next answer is the last one here
        self._is_between = True  # what comes next begins a request
        self._missing = 0  # bytes of the body of a request that goes past the parser
        self._before: Any = None
        self._head_size = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.open_wires.add(self)
        if "draining" in self.app_state:
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self.open_wires.discard(self)
        begun: list[Any] = [] if self.cycle is None or self.is_busy else [self.cycle]
        for exchange in (*begun, *(cycle for cycle, _ in self.pipeline)):
            if isinstance(exchange, Exchange):
                self._give_back(exchange)  # nobody will answer it
        super().connection_lost(exc)
        self.end_waiting()

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._go_on(data)
            return
        seen = sight(data) if self._is_between and self.lane else None
        if seen and (head := self.heads.get(seen)):
            self._begin_again(head, seen)
            return
        before = self.cycle
        self._parse(data)
        if seen and self.cycle is not before and isinstance(self.cycle, Exchange) and self.heads.is_again(seen):
            self._remember(seen, self.cycle)

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade:
            super().shutdown()  # answered as if it had not been asked for
        except HttpParserError:
            exchange = self.cycle
            if isinstance(exchange, Exchange) and not exchange.is_whole:
                if not exchange.error:  # or it has its answer, and what else it sends is nothing to us
                    exchange.is_whole = True  # as far as it can be read
                    self._refuse(exchange, Invalid("This is no HTTP request", errors=[]))
            elif self.is_busy:
                super().shutdown()
                self.end_waiting()
            else:
                self._refuse_head()

    # What the parser finds, in its order.

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self._head_size = 0
        self._is_between = False
        self.since = self.loop.time()

    def on_url(self, url: bytes) -> None:
        self.url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))
        self._count_head(len(name) + len(value))

    def on_headers_complete(self) -> None:
        raw_path, _, query = self.url.partition(b"?")
        path = raw_path.decode("latin-1")
        if "%" in path:
            path = unquote(path)
        if self.lane and self.lane.serves(path):
            self._begin(path, query)
        else:
            self._begin_asgi()

    def on_body(self, body: bytes) -> None:
        exchange = self.cycle
        if not isinstance(exchange, Exchange):
            super().on_body(body)
        elif not exchange.error:
            exchange.add(body)
            if exchange.size > COUNTED_FROM:
                self._count(exchange)

    def on_message_complete(self) -> None:
        self._is_between = self.parser.should_keep_alive()
        exchange = self.cycle
        if not isinstance(exchange, Exchange):
            super().on_message_complete()
            return
        exchange.is_whole = True
        if not exchange.error:
            self._start(exchange)
        elif exchange.response_complete:
            self.transport.close()

    def shutdown(self) -> None:
        """The process is to end. The next answer here is the last, and says so; who waits for a message is told that
        there is none. A connection that was used a moment ago stays for a moment: a request may be on its way."""
        self.is_ending = True
        if self.is_under_way and not isinstance(self.cycle, Exchange):
            self.cycle.keep_alive = False
        self.end_waiting()
        self._close_when_silent()

    def end_waiting(self) -> None:
        if self.waiting and not self.waiting.done():
            self.waiting.set_result(None)

    def _close_when_silent(self) -> None:
        left_s = self.since + LAST_WORD_S - self.loop.time()
        if self.transport.is_closing():
            return
        if left_s <= 0 and not self.is_under_way:
            self.transport.close()
        else:
            self.loop.call_later(max(left_s, LOOK_AGAIN_S), self._close_when_silent)

    # What goes back.

    def reply(self, exchange: Exchange, answer: Answer) -> None:
        exchange.response_complete = True
        if exchange.counted:
            self._give_back(exchange)
        if self.transport.is_closing():
            return
        status, headers, body = answer
        is_last = self.is_ending and not self.pipeline
        keep_alive = exchange.keep_alive and not exchange.error and not is_last
        head = _head(status, tuple(headers.items()), keep_alive)
        date, size = self.server_state.default_headers[0][1], len(body)
        if exchange.method == "HEAD":
            body = b""
        self.transport.write(b"%bdate: %b\r\ncontent-length: %d\r\n\r\n%b" % (head, date, size, body))
        if not keep_alive:
            # What is refused is read to its end, or a client that still sends would not see why.
            self.loop.call_later(0 if exchange.is_whole else LINGER_S, self.transport.close)
        else:
            self.on_response_complete()

    def on_response_complete(self) -> None:
        """As uvicorn's, without a timer for each: `keep_closing_idle` looks at all."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.since = self.loop.time()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        if not self.pipeline:
            self.flow.resume_reading()

    @property
    def is_under_way(self) -> bool:
        """A request is here, perhaps not as a whole, and not answered yet."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def is_busy(self) -> bool:
        """A request is here, and not answered yet."""
        cycle = self.cycle
        return (
            cycle is not None
            and not cycle.response_complete
            and not (isinstance(cycle, Exchange) and not cycle.is_whole)
        )

    def _begin(self, path: str, query: bytes) -> None:
        parser, headers = self.parser, dict(self.headers)
        exchange = Exchange(self, parser.get_method().decode("latin-1"), path, query, headers)
        exchange.keep_alive = parser.should_keep_alive() and parser.get_http_version() != "1.0"
        self._before, self.cycle = self.cycle, exchange  # type: ignore[assignment]
        try:
            plane.require_size(headers)
        except MqueueError as error:
            self._refuse(exchange, error)
            return
        if headers.get(b"expect", b"").lower() == b"100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _begin_again(self, head: Head, seen: Sight) -> None:
        """Past the parser, which has read this head before, and is told nothing of this request."""
        exchange = Exchange(self, head.method, head.path, head.query, head.headers)
        exchange.head, exchange.body, exchange.size = head, seen.body, len(seen.body)
        self.since = self.loop.time()
        self._before, self.cycle = self.cycle, exchange  # type: ignore[assignment]
        self._missing = seen.size - exchange.size
        if not self._missing:
            exchange.is_whole = True
            self._start(exchange)

    def _go_on(self, data: bytes) -> None:
        """Many clients send the body by itself."""
        exchange, part, rest = self.cycle, data[: self._missing], data[self._missing :]
        assert isinstance(exchange, Exchange)
        exchange.add(part)
        self._missing -= len(part)
        if not self._missing:
            exchange.is_whole = True
            self._start(exchange)
        if rest:
            self.data_received(rest)

    def _remember(self, seen: Sight, exchange: Exchange) -> None:
        """What the parser and the rules made of a request, if the next one like it may go past them."""
        if exchange.keep_alive:
            assert self.lane  # or it would be Django's
            if head := self.lane.head(seen, exchange.method, exchange.path, exchange.query, exchange.headers):
                self.heads.learn(seen, head)

    def _begin_asgi(self) -> None:
        headers, url = self.headers, self.url
        super().on_message_begin()
        self.url = url
        for name, value in headers:
            super().on_header(name, value)
        super().on_headers_complete()
        if self.is_ending:
            self.cycle.keep_alive = False

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """As uvicorn's; but an exchange says itself when it is done, which a callback would take another turn for."""
        if not isinstance(cycle, Exchange):
            super()._start_asgi_task(cycle, app)
            return
        cycle.task = self.loop.create_task(cycle.run())
        self.tasks.add(cycle.task)

    def _start(self, exchange: Exchange) -> None:
        if self._before is None or self._before.response_complete:
            self._before = None
            self._start_asgi_task(exchange, self.app)
        else:
            self.pipeline.appendleft((exchange, self.app))  # type: ignore[arg-type]
            if len(self.pipeline) >= MOST_BEHIND or exchange.size >= LARGE:  # not before: then no leaving is noticed
                self.flow.pause_reading()

    def _count(self, exchange: Exchange) -> None:
        if exchange.size > MAX_REQUEST:
            self._refuse(exchange, TooLarge(f"The request is over {MAX_REQUEST} bytes"))
            return
        if exchange.is_known is None:
            try:
                exchange.is_known = self._is_known(exchange)
            except MqueueError as error:  # before the rest of it is held
                self._refuse(exchange, error)
                return
        if not self.bodies.take(exchange.size - exchange.counted, is_known=exchange.is_known):
            self._refuse(exchange, Overloaded())
        else:
            exchange.counted = exchange.size

    def _is_known(self, exchange: Exchange) -> bool:
        """Whether its credential holds; a key that this process does not know is looked for when all of it is here."""
        try:
            return self.lane is not None and self.lane.plane.verify(exchange.headers) is not None
        except UnknownKey:
            return False

    def _give_back(self, exchange: Exchange) -> None:
        self.bodies.give_back(exchange.counted)
        exchange.counted = 0

    def _refuse(self, exchange: Exchange, error: MqueueError) -> None:
        exchange.error, exchange.body = error, b""
        self._give_back(exchange)
        self._start(exchange)

    def _refuse_head(self) -> None:
        """It is no HTTP, or too much of it."""
        exchange = Exchange(self, "", "", b"", {})
        exchange.is_whole, exchange.keep_alive = True, False
        too_much = self._head_size > MAX_HEAD
        self.reply(exchange, problem(HeadTooLarge() if too_much else Invalid("This is no HTTP request", errors=[])))

    def _count_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > MAX_HEAD:
            raise TooMuchHead


def keep_closing_idle(wires: set[Wire]) -> None:
    """From now on: those that have been silent, or have not come to an end of their request, for too long."""
    loop = asyncio.get_running_loop()
    for wire in list(wires):
        if loop.time() - wire.since > IDLE_S and not wire.is_busy:
            wire.transport.close()
    loop.call_later(LOOK_EVERY_S, keep_closing_idle, wires)


@lru_cache(maxsize=1024)
def _head(status: int, headers: tuple[tuple[str, str], ...], keep_alive: bool) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in headers)]
    if not keep_alive:
        lines.append("connection: close")
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")
