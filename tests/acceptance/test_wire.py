"""HTTP itself, as bytes over a socket: what clients and proxies do that no HTTP library of ours would."""

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from mqueue.core.messages import MAX_REQUEST
from tests.acceptance.calls import get, once, put
from tests.service import Service

pytestmark = once
Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture
def line(service: Service) -> Iterator[socket.socket]:
    with contextlib.closing(socket.create_connection(("127.0.0.1", service.port), timeout=10)) as opened:
        yield opened


@pytest.fixture
def token(http: httpx.Client) -> str:
    return http.headers["authorization"]


def request(method: str, path: str, token: str, body: bytes = b"", *more: str, version: str = "1.1") -> bytes:
    lines = [f"{method} {path} HTTP/{version}", "host: x", f"authorization: {token}", *more]
    if body:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def one(namespace: str, body: Any = 1) -> bytes:
    return json.dumps({"namespace": namespace, "topic": "t", "body": body}).encode()


def read_all(line: socket.socket) -> bytes:
    """Until the service ends the connection."""
    parts = []
    while part := line.recv(65536):
        parts.append(part)
    return b"".join(parts)


def read_answers(line: socket.socket, count: int, *, heads: bool = False) -> list[Answer]:
    data = b""
    answers: list[Answer] = []
    while len(answers) < count:
        while b"\r\n\r\n" not in data:
            data += _more(line)
        head, _, data = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (text.split(": ", 1) for text in lines)}
        length = 0 if heads else int(headers["content-length"])
        while len(data) < length:
            data += _more(line)
        answers.append((int(first.split()[1]), headers, data[:length]))
        data = data[length:]
    return answers


def _more(line: socket.socket) -> bytes:
    part = line.recv(65536)
    assert part, "the connection ended"
    return part


def test_pipelined_requests_are_answered_in_their_order(line: socket.socket, token: str, namespace: str) -> None:
    requests = [
        request("POST", "/enqueue", token, one(namespace)),
        request("GET", f"/dequeue?namespace={namespace}&topic=u&wait_ms=300", token),  # takes its time
        request("GET", "/api/schema/?format=json", token),  # Django's
        request("GET", "/live", token),
        request("POST", "/enqueue", token, b"no json"),
        request("GET", f"/dequeue?namespace={namespace}&topic=t", token),
    ]
    line.sendall(b"".join(requests))
    answers = read_answers(line, len(requests))
    assert [status for status, _, _ in answers] == [200, 200, 200, 200, 400, 200]
    assert answers[1][2] == b"[]"
    assert b"openapi" in answers[2][2]
    assert [message["body"] for message in json.loads(answers[5][2])] == [1]


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_request_that_is_known_waits_for_the_one_before_it(
    line: socket.socket, token: str, namespace: str, pieces: int
) -> None:
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    known = request("POST", "/enqueue", token, one(namespace))
    for _ in range(4):
        line.sendall(known)
        assert read_answers(line, 1)[0][0] == 200
    line.sendall(request("GET", f"/dequeue?namespace={namespace}&topic=u&wait_ms=600", token))
    time.sleep(0.1)
    line.sendall(known[:-4] if pieces == 2 else known)
    if pieces == 2:
        time.sleep(0.1)
        line.sendall(known[-4:])
    polled, enqueued = read_answers(line, 2)
    assert polled[2] == b"[]"
    assert len(json.loads(enqueued[2])) == 1


def test_what_is_no_http_is_told_so_behind_the_answer_before_it(
    line: socket.socket, token: str, namespace: str
) -> None:
    chunked = request("POST", "/enqueue", token, b"", "transfer-encoding: chunked")
    line.sendall(
        request("GET", f"/dequeue?namespace={namespace}&topic=u&wait_ms=300", token) + chunked + b"no size\r\n"
    )
    polled, refused = read_answers(line, 2)
    assert (polled[0], polled[2], refused[0]) == (200, b"[]", 400)
    assert read_all(line) == b""


def test_a_request_in_single_bytes_is_whole_in_the_end(line: socket.socket, token: str, namespace: str) -> None:
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in request("POST", "/enqueue", token, one(namespace)):
        line.sendall(bytes([byte]))
    ((status, headers, _),) = read_answers(line, 1)
    assert status == 200
    assert "date" in headers


def test_a_body_in_chunks_is_put_together(line: socket.socket, token: str, http: httpx.Client, namespace: str) -> None:
    body = one(namespace, "x" * 100_000)
    parts = [body[at : at + 7_000] for at in range(0, len(body), 7_000)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    line.sendall(request("POST", "/enqueue", token, b"", "transfer-encoding: chunked") + chunks + b"0\r\n\r\n")
    assert read_answers(line, 1)[0][0] == 200
    assert get(http, namespace)[0]["body"] == "x" * 100_000


def test_a_client_that_asks_first_is_told_to_go_on(line: socket.socket, token: str, namespace: str) -> None:
    body = one(namespace)
    head = request("POST", "/enqueue", token, b"", "expect: 100-continue", f"content-length: {len(body)}")
    line.sendall(head)
    assert line.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    line.sendall(body)
    assert read_answers(line, 1)[0][0] == 200


@pytest.mark.parametrize("behind_a_poll", [False, True], ids=["alone", "behind a poll"])
def test_what_is_too_large_is_refused_before_it_is_here(
    line: socket.socket, token: str, namespace: str, behind_a_poll: bool
) -> None:
    if behind_a_poll:
        line.sendall(request("GET", f"/dequeue?namespace={namespace}&topic=t&wait_ms=300", token))
    line.sendall(request("POST", "/enqueue", token, b"", f"content-length: {MAX_REQUEST + 1}") + b"x" * 100_000)
    *polled, (status, headers, body) = read_answers(line, 1 + behind_a_poll)
    assert [body for _, _, body in polled] == [b"[]"] * behind_a_poll
    assert (status, json.loads(body)["code"]) == (413, "too_large")
    assert headers["connection"] == "close"


def test_a_client_that_goes_on_sending_what_is_too_large_still_sees_why(line: socket.socket, token: str) -> None:
    line.sendall(request("POST", "/enqueue", token, b"", "transfer-encoding: chunked"))
    chunk = b"%x\r\n%b\r\n" % (1 << 20, b"x" * (1 << 20))
    for _ in range(18):
        line.sendall(chunk)
    line.sendall(b"0\r\n\r\n")
    answer = read_all(line)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.count(b"HTTP/1.1") == 1


def test_a_head_without_end_is_refused(line: socket.socket, token: str) -> None:
    line.sendall(request("GET", "/live", token, b"", "x-long: " + "y" * 70_000))
    answer = read_all(line)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b'"code":"head_too_large"' in answer


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00\x01\x00", b"hello there\r\n\r\n", b"GET /live HTTP/9.9\r\n\r\n"]
)
def test_what_is_no_http_gets_a_problem_and_an_end(line: socket.socket, garbage: bytes) -> None:
    line.sendall(garbage)
    answer = read_all(line)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in answer


def test_two_lengths_are_no_http(line: socket.socket, token: str, namespace: str) -> None:
    body = one(namespace)
    more = (f"content-length: {len(body)}", f"content-length: {len(body) - 1}")
    line.sendall(request("POST", "/enqueue", token, b"", *more) + body)
    assert read_all(line).startswith(b"HTTP/1.1 400 ")


def test_a_length_beside_chunks_is_no_http(line: socket.socket, token: str) -> None:
    more = ("content-length: 5", "transfer-encoding: chunked")
    line.sendall(request("POST", "/enqueue", token, b"", *more) + b"0\r\n\r\n")
    assert read_all(line).startswith(b"HTTP/1.1 400 ")


def test_an_old_client_gets_its_answer_and_the_end(line: socket.socket, token: str) -> None:
    line.sendall(request("GET", "/live", token, version="1.0"))
    answer = read_all(line)
    assert answer.endswith(b'{"status":"OK"}')
    assert b"connection: close" in answer


def test_a_client_that_says_close_gets_its_answer_and_the_end(line: socket.socket, token: str) -> None:
    line.sendall(request("GET", "/live", token, b"", "connection: close"))
    assert read_all(line).endswith(b'{"status":"OK"}')


def test_head_has_the_length_and_no_body(line: socket.socket, token: str) -> None:
    line.sendall(request("HEAD", "/live", token) + request("HEAD", "/live", token))
    for status, headers, body in read_answers(line, 2, heads=True):
        assert (status, headers["content-length"], body) == (200, "15", b"")


def test_an_upgrade_is_not_taken(line: socket.socket, token: str) -> None:
    line.sendall(request("GET", "/live", token, b"", "connection: upgrade", "upgrade: websocket"))
    assert read_all(line).startswith(b"HTTP/1.1 200 ")


def test_a_path_may_be_escaped_and_a_url_whole(
    line: socket.socket, token: str, http: httpx.Client, namespace: str
) -> None:
    number = put(http, namespace)
    escaped = "".join(f"%{ord(digit):02x}" for digit in str(number))
    line.sendall(request("GET", f"/messages/{escaped}?namespace={namespace}&topic=t", token))
    line.sendall(request("GET", "http://somewhere/live", token))
    (looked, live) = read_answers(line, 2)
    assert json.loads(looked[2])["id"] == number
    assert live[0] == 200


def test_a_hundred_polls_behind_each_other_end_with_their_client(
    service: Service, token: str, http: httpx.Client, namespace: str
) -> None:
    put(http, namespace, "other")
    with socket.create_connection(("127.0.0.1", service.port)) as line:
        line.sendall(request("GET", f"/dequeue?namespace={namespace}&topic=t&wait_ms=20000", token) * 100)
    number = put(http, namespace)
    assert [message["id"] for message in get(http, namespace, wait_ms=2000)] == [number]
