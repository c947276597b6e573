"""Requests whose head is remembered are what the parser would have made of them."""

import asyncio
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.config import Config
from uvicorn.server import ServerState

from mqueue.api import heads
from mqueue.api.bodies import COUNTED_FROM, Bodies
from mqueue.api.fastlane import FastLane
from mqueue.api.handlers import Answer
from mqueue.api.heads import Head, Heads, Sight
from mqueue.api.wire import Exchange, Wire
from mqueue.core import conf, tokens

SECRET = secrets.token_hex(32)
CONFIGURATION = conf.read({"JWT_SECRET": SECRET})
TOKEN = tokens.make(SECRET, "me", ["*"], ["*"], 3600)
REMEMBERED = 3  # times that a head comes until it is known
GOOD = b"GET /dequeue?namespace=a HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %s\r\n\r\n" % TOKEN.encode()


class Transport:
    """A connection's other side, of which nobody needs to hear."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: bytes) -> None: ...

    def get_extra_info(self, name: str) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def nobody(scope: Any, receive: Any, send: Any) -> None: ...


class Forgetful(Heads):
    """Knows nothing: every request goes through the parser."""

    def get(self, seen: Sight) -> None:
        return None


class Reading(Wire):
    """Notes what it would begin to answer."""

    def __init__(self, lane: FastLane, known: Heads) -> None:
        self.begun: list[tuple[Any, ...]] = []
        self.again = 0
        shared = {"lane": lane, "wires": set(), "heads": known, "bodies": Bodies(2**20)}
        config = Config(nobody, http=Wire, ws="none", log_config=None)
        super().__init__(config=config, server_state=ServerState(), app_state=shared)
        self.connection_made(Transport())

    def _start(self, exchange: Exchange) -> None:
        body = b"".join(exchange.body) if isinstance(exchange.body, list) else exchange.body
        headers = {name: value for name, value in exchange.headers.items() if name in heads.ASKED}
        refused = type(exchange.error)
        self.begun.append((exchange.method, exchange.path, exchange.query, headers, body, exchange.keep_alive, refused))
        self.again += exchange.head is not None
        exchange.response_complete = True

    def reply(self, exchange: Exchange, answer: Answer) -> None:
        """To what is no HTTP, which is the end."""
        self.begun.append(answer)
        self.transport.close()


def compare(lane: FastLane, known: Heads, reads: list[bytes]) -> None:
    """A connection that may go past the parser with one that may not."""
    quick, plain = Reading(lane, known), Reading(lane, Forgetful())
    for read in reads:
        for wire in (quick, plain):
            if not wire.transport.is_closing():
                wire.data_received(read)
        assert quick.begun == plain.begun
        assert quick.transport.is_closing() == plain.transport.is_closing()


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """That the connections believe to be in; nothing runs in it."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield made
    asyncio.set_event_loop(None)
    made.close()


@pytest.fixture(scope="module")
def lane(loop: asyncio.AbstractEventLoop) -> FastLane:
    return FastLane(CONFIGURATION)


def request(
    path: str = "/enqueue",
    body: bytes = b"{}",
    *more: str,
    method: str = "POST",
    length: str | None = "content-length: ",
    end: str = "",
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: x", f"authorization: Bearer {TOKEN}", *more]
    if length is not None:
        lines.append(f"{length}{len(body)}")
    return "\r\n".join([*lines, *([end] if end else []), "", ""]).encode() + body


def test_a_head_that_comes_again_goes_past_the_parser(lane: FastLane) -> None:
    wire = Reading(lane, Heads())
    for size in range(1, 10):
        wire.data_received(request(body=b"1" * size))
    assert [len(body) for *_, body, _, _ in wire.begun] == list(range(1, 10))
    assert wire.again == 9 - (REMEMBERED - 1)


def test_another_connection_knows_it_too(lane: FastLane) -> None:
    known = Heads()
    for _ in range(REMEMBERED):
        Reading(lane, known).data_received(request())
    wire = Reading(lane, known)
    wire.data_received(request())
    assert wire.again == 1


@pytest.mark.parametrize(
    "sent",
    [
        request("/messages/12?namespace=a", b"", method="DELETE", length=None),  # each has another id
        request("/live", b"", method="GET", length=None),
        request("/enqueue", b"", method="GET", length=None),
        request("/enqueue", b"{}", "content-type: text/plain"),
        request("/enqueue", b"{}", "connection: close"),
        request("/enqueue", b"{}", "expect: 100-continue"),
        request("/enqueue", b"{}", "upgrade: websocket", "connection: upgrade"),
        request("/enqueue", b"2\r\n{}\r\n0\r\n\r\n", "transfer-encoding: chunked", length=None),
        request("/enqueue", b"{}", length="x-length: ", end="content-length: 2"),
        request("/enqueue", b"{}", "authorization: Basic eDp4"),
        request("/enqueue", b"{}", "x-long: " + "x" * heads.USUAL),
        request("/enqueue", b" " * (COUNTED_FROM + 1)),
        request("/enqueue", b"{}").replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
)
def test_what_has_more_to_say_is_read_each_time(lane: FastLane, sent: bytes) -> None:
    known = Heads()
    for _ in range(REMEMBERED + 2):
        wire = Reading(lane, known)
        wire.data_received(sent)
        assert wire.begun
        assert not wire.again


@pytest.mark.parametrize("path", ["/enqueue", "/ack"])
def test_a_body_that_looks_like_a_request_is_a_body(lane: FastLane, path: str) -> None:
    """Behind a head that is known, and behind one that the parser has to read."""
    known = Heads()
    for _ in range(REMEMBERED):
        Reading(lane, known).data_received(request("/enqueue"))
    wire, whole = Reading(lane, known), request(path, request("/enqueue"))
    wire.data_received(whole[: -len(request("/enqueue"))])
    wire.data_received(request("/enqueue"))
    ((_, begun, *_, body, _, _),) = wire.begun
    assert (begun, body) == (path, request("/enqueue"))
    assert wire.again == (path == "/enqueue")


def test_a_body_that_comes_by_itself_finds_its_head_known(lane: FastLane) -> None:
    known = Heads()
    for _ in range(REMEMBERED + 2):
        wire, sent = Reading(lane, known), request(body=b'{"a": 1}')
        for part in (sent[:-8], sent[-8:-3], sent[-3:] + request()):
            wire.data_received(part)
        assert [body for *_, body, _, _ in wire.begun] == [b'{"a": 1}', b"{}"]
    assert wire.again == 2


def test_two_that_come_together_are_two(lane: FastLane) -> None:
    known = Heads()
    for _ in range(REMEMBERED):
        Reading(lane, known).data_received(request())
    wire = Reading(lane, known)
    wire.data_received(request() + request(body=b"123"))
    assert [body for *_, body, _, _ in wire.begun] == [b"{}", b"123"]


@pytest.mark.parametrize(
    "reads",
    [
        [GOOD, b"POST /enqueue HTTP/1.1\r\nno header\r\n\r\n"],
        [GOOD + GOOD.replace(b"=a", b"=b")],
        [GOOD.replace(b"GET", b"POST", 1)[:-2] + b"transfer-encoding: chunked\r\n\r\n", b"2\r\n{}\r\n0\r\n\r\n"],
        [GOOD.replace(b"GET", b"POST", 1)[:-2] + b"CONTENT-LENGTH: 2\r\n\r\n", b"{}"],
        [GOOD.replace(b"GET", b"POST", 1)[:-2] + b"content-length:2\r\n\r\n", b"{}"],
        [b"GET /stats?namespace=a\n\r\n" + GOOD],
        [GOOD, b"\r\n" + GOOD, b"\r\n", GOOD],
    ],
)
def test_what_is_read_again_and_again_stays_what_it_is(lane: FastLane, reads: list[bytes]) -> None:
    known = Heads()
    for _ in range(REMEMBERED + 2):
        compare(lane, known, reads)


def test_who_is_not_known_is_not_remembered(lane: FastLane) -> None:
    known = Heads()
    for credential in ("authorization: Bearer x", "x-api-key: x", "x-nothing: x"):
        for _ in range(REMEMBERED + 1):
            Reading(lane, known).data_received(f"GET /dequeue HTTP/1.1\r\n{credential}\r\n\r\n".encode())
    assert not known._known


def test_a_known_head_whose_body_is_on_its_way_is_no_silence(lane: FastLane) -> None:
    known = Heads()
    for _ in range(REMEMBERED):
        Reading(lane, known).data_received(request())
    wire = Reading(lane, known)
    wire.since = 0.0
    wire.data_received(request()[:-2])
    assert wire.since > 0
    assert wire.is_under_way
    assert not wire.is_busy


def test_behind_the_last_request_of_a_connection_nothing_is_read(lane: FastLane) -> None:
    known = Heads()
    for _ in range(REMEMBERED):
        Reading(lane, known).data_received(request())
    wire = Reading(lane, known)
    wire.data_received(request("/enqueue", b"{}", "connection: close"))
    wire.data_received(request())
    assert len([one for one in wire.begun if one[-1] is type(None)]) == 1


def test_clients_that_never_send_the_same_twice_are_not_kept(lane: FastLane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "MOST_ONCE", 10)
    known = Heads()
    wire = Reading(lane, known)
    for number in range(50):
        wire.data_received(request("/enqueue", b"{}", f"traceparent: {number}"))
    assert not known._known
    assert len(known._once) <= 10


def test_of_those_that_come_again_so_many_are_kept(lane: FastLane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "MOST", 10)
    known = Heads()
    wire = Reading(lane, known)
    for number in range(50):
        for _ in range(REMEMBERED):
            wire.data_received(request("/enqueue", b"{}", f"user-agent: {number}"))
    assert 0 < len(known._known) <= 10


PATHS = st.sampled_from(
    ["/enqueue", "/ack", "/dequeue?namespace=a&topic=t", "/stats?x=ength:", "/%61ck", "/messages/7"]
)
LENGTHS = st.sampled_from(
    ["content-length: ", "Content-Length: ", "CONTENT-LENGTH: ", "content-length:", "content-length:  ", None]
)
MORE = st.lists(
    st.sampled_from(
        [
            "content-type: application/json",
            "x-length: 2",
            "Length: 3",
            "content-length: 2",
            "Content-Length: 4",
            "transfer-encoding: chunked",
            "connection: close",
            "connection: keep-alive",
            "upgrade: h2c",
            "expect: 100-continue",
            "x: \r\n folded",
            "no header",
        ]
    ),
    max_size=2,
)
BODIES = st.sampled_from([b"", b"{}", b"0\r\n\r\n", b"1\r\nx\r\n0\r\n\r\n", b"GET /live HTTP/1.1\r\n\r\n", b"1234"])
REQUESTS = st.builds(
    lambda path, body, more, method, length: request(path, body, *more, method=method, length=length),
    PATHS,
    BODIES,
    MORE,
    st.sampled_from(["POST", "GET"]),
    LENGTHS,
)


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """What comes in one read after the other: a few requests, most of them several times, some together or cut."""
    kinds = draw(st.lists(REQUESTS, min_size=1, max_size=3))
    reads = []
    for sent in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=12)):
        match draw(st.sampled_from(["whole", "whole", "body by itself", "cut", "with the next"])):
            case "body by itself":
                head, end, body = sent.partition(b"\r\n\r\n")
                reads += [head + end, body]
            case "cut":
                at = draw(st.integers(0, len(sent)))
                reads += [sent[:at], sent[at:]]
            case "with the next" if reads:
                reads[-1] += sent
            case _:
                reads.append(sent)
    return [read for read in reads if read]


@given(streams())
def test_what_is_begun_is_what_the_parser_makes_of_it(lane: FastLane, reads: list[bytes]) -> None:
    known = Heads()
    for _ in range(REMEMBERED + 1):  # by then, much of it is known
        compare(lane, known, reads)


def test_a_head_keeps_what_the_rules_look_at(lane: FastLane) -> None:
    known = Heads()
    for _ in range(REMEMBERED):
        Reading(lane, known).data_received(request("/dequeue?namespace=a", b"", method="GET", length=None))
    (head,) = known._known.values()
    assert isinstance(head, Head)
    assert (head.method, head.path, head.query) == ("GET", "/dequeue", b"namespace=a")
    assert head.headers == {b"authorization": f"Bearer {TOKEN}".encode()}
