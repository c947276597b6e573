"""Bytes that no client of ours would send: whatever comes, no answer is a 500, no worker dies, none hangs, and the next
valid request is answered. h11 judges what was sent: where it sees a whole request, an answer has to come.

`MQUEUE_FUZZ=5000` tries so many instead of 150, with another seed.
"""

import contextlib
import json
import os
import random
import resource
import socket
import time
from collections.abc import Callable, Iterator

import h11
import httpx
import jwt
import psutil
import pytest

from mqueue.core.messages import MAX_REQUEST
from tests.acceptance.calls import get, once, put
from tests.service import Service

TRIES = int(os.environ.get("MQUEUE_FUZZ", "150"))
SLOW_CLIENTS = min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 2_000)  # where the system lets us
ANSWER_S, SILENCE_S = 10.0, 0.15
Change = Callable[[random.Random, bytes], bytes]


def requests(token: str, namespace: str) -> list[bytes]:
    """One of each kind, as a good client would send it."""
    place = {"namespace": namespace, "topic": "t"}
    bodies = {
        "/enqueue": [place | {"body": {"n": [1, "é", None]}, "headers": {"a": "b"}}, place | {"payload": "AP8="}],
        "/dequeue": place | {"limit": 2, "wait_ms": 5},
        "/ack": [place | {"id": 1029, "receipt": "AAAAAAAABAUAAAAB"}],
        "/nack": place | {"id": 1029, "error": "\u0000"},
        "/extend": place | {"id": 1029, "visibility_ms": 1000},
        "/release": [place | {"id": 1029}],
        "/dlq/replay": place | {"ids": [1029]},
        "/dlq/delete": place | {"all": True},
    }
    lines = f"host: x\r\nauthorization: {token}\r\ncontent-type: application/json\r\n"
    query = f"namespace={namespace}&topic=t"
    made = []
    for path, body in bodies.items():
        text = json.dumps(body).encode()
        made.append(f"POST {path} HTTP/1.1\r\n{lines}content-length: {len(text)}\r\n\r\n".encode() + text)
        made.append(f"POST {path} HTTP/1.1\r\n{lines}transfer-encoding: chunked\r\n\r\n".encode() + chunked(text))
    looks = [
        f"/{path}?{query}" for path in ("dequeue", "dlq", "messages", "messages/1029", "stats", "messages/1029/trace")
    ]
    looks += ["/health", "/metrics", "/api/v1/namespaces/", "/admin/login/"]
    made += [f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode() for path in looks]
    made.append(f"PUT /api/v1/namespaces/{namespace}/ HTTP/1.1\r\n{lines}content-length: 2\r\n\r\n{{}}".encode())
    patch = json.dumps(place | {"priority": 1}).encode()
    made.append(f"PATCH /messages/1029 HTTP/1.1\r\n{lines}content-length: {len(patch)}\r\n\r\n".encode() + patch)
    made.append(f"DELETE /messages/1029?{query} HTTP/1.1\r\n{lines}\r\n".encode())
    return made


def chunked(body: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:7], body[7:])) + b"0\r\n\r\n"


def flip(rng: random.Random, sent: bytes) -> bytes:
    place = rng.randrange(len(sent))
    return sent[:place] + bytes([rng.randrange(256)]) + sent[place + 1 :]


def insert(rng: random.Random, sent: bytes) -> bytes:
    place = rng.randrange(len(sent) + 1)
    odd = rng.choice(
        [b"\0", b"\xff\xfe", b"\r\n", b"\n", b"\r", b":", b" ", b"%00", b"%ff", b"\xc3", b"\\ud800", b"A" * 9000]
    )
    return sent[:place] + odd + sent[place:]


def cut(rng: random.Random, sent: bytes) -> bytes:
    first = rng.randrange(len(sent))
    return sent[:first] + sent[first + rng.randrange(1, 40) :]


def repeat(rng: random.Random, sent: bytes) -> bytes:
    first = rng.randrange(len(sent))
    last = first + rng.randrange(1, 60)
    return sent[:last] + sent[first:last] * rng.choice([1, 1, 50]) + sent[last:]


def truncate(rng: random.Random, sent: bytes) -> bytes:
    return sent[: rng.randrange(1, len(sent))]


def lie_about_the_length(rng: random.Random, sent: bytes) -> bytes:
    lie = rng.choice(
        [b"-1", b"0", b"1", b"99999999999999999999999", b"0x10", b"1e3", b"", b"7, 7", b"16777217", b"\xb2"]
    )
    head, _, body = sent.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    return b"\r\n".join([*lines, b"content-length: " + lie]) + b"\r\n\r\n" + body


def spoil_the_chunks(rng: random.Random, sent: bytes) -> bytes:
    head, _, body = sent.partition(b"\r\n\r\n")
    odd = rng.choice(
        [b"zz\r\n", b"-5\r\nabcde\r\n", b"ffffffffffffffffff\r\n", b"5;a=b\r\nab", b"\r\n\r\n", b"0\r\nx: y\r\n\r\n"]
    )
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    return b"\r\n".join([*lines, b"transfer-encoding: chunked"]) + b"\r\n\r\n" + odd + body


def add_headers(rng: random.Random, sent: bytes) -> bytes:
    first, _, rest = sent.partition(b"\r\n")
    odd = rng.choice(
        [
            b"x: " + b"y" * 70_000, b"\r\n".join(b"x%d: y" % n for n in range(5_000)), b"x : y", b": y", b"no colon",
            b" folded: y", b"upgrade: websocket\r\nconnection: upgrade", b"expect: 100-continue", b"connection: close",
            b"content-encoding: gzip", b"content-type: text/plain", b"host: a\r\nhost: b", b"te: trailers",
            b"transfer-encoding: chunked\r\ncontent-length: 3", b"authorization: Bearer \xff\xff", b"x-api-key: \0",
        ]
    )  # fmt: skip
    return first + b"\r\n" + odd + b"\r\n" + rest


def change_the_first_line(rng: random.Random, sent: bytes) -> bytes:
    rest = sent.partition(b"\r\n")[2]
    return rng.choice(
        [
            b"GET /" + b"a" * 70_000 + b" HTTP/1.1", b"GET http://x/health HTTP/1.1", b"GET //health HTTP/1.1",
            b"GET /messages/%2e%2e/x HTTP/1.1", b"GET /messages/\xff HTTP/1.1",
            b"GET /messages/99999999999999999 HTTP/1.1",
            b"BREW /enqueue HTTP/1.1", b"get /health HTTP/1.1", b"GET /health", b"GET /health HTTP/0.9",
            b"GET /health HTTP/1.0", b"GET /health HTTP/3.7", b"PRI * HTTP/2.0", b"OPTIONS * HTTP/1.1",
            b"CONNECT x:80 HTTP/1.1", b"\x16\x03\x01\x02\x00",
            b"GET /dequeue?namespace=%00&topic=%ff&limit=1e9 HTTP/1.1", b"GET /stats?namespace=a&namespace=b HTTP/1.1",
            b"POST /enqueue?\xc3\x28 HTTP/1.1", b"GET /api/v1/namespaces/%00/ HTTP/1.1", b"HEAD /messages/5 HTTP/1.1",
        ]
    ) + b"\r\n" + rest  # fmt: skip


CHANGES: tuple[Change, ...] = (
    flip, insert, cut, repeat, truncate, lie_about_the_length, spoil_the_chunks, add_headers, change_the_first_line,
)  # fmt: skip


def is_whole(sent: bytes) -> bool:
    """Whether h11 sees a whole request at the beginning."""
    judge = h11.Connection(h11.SERVER, max_incomplete_event_size=2**30)
    try:
        judge.receive_data(sent)
        while (event := judge.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.EndOfMessage):
                return True
            if event is h11.PAUSED:
                return False
    except h11.RemoteProtocolError:
        pass
    return False


def send(port: int, pieces: list[bytes], patience_s: float) -> bytes:
    """What comes back until an answer is there as a whole, the service hangs up, or it says nothing for so long."""
    got = b""
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)) as line:
        with contextlib.suppress(ConnectionError, TimeoutError):
            for piece in pieces:
                line.sendall(piece)
                if len(pieces) > 1:
                    time.sleep(0.001)
        line.settimeout(patience_s)
        with contextlib.suppress(ConnectionError, TimeoutError):
            while part := line.recv(65536):
                got += part
                head, gap, body = got.partition(b"\r\n\r\n")
                length = [one for one in head.lower().split(b"\r\n") if one.startswith(b"content-length:")]
                if gap and length and len(body) >= int(length[0].split(b":")[1]) and b" 100 " not in head:
                    break
    return got


@once
def test_whatever_bytes_come_the_service_answers_and_goes_on(
    service: Service, http: httpx.Client, namespace: str
) -> None:
    rng = random.Random(TRIES)
    good = requests(http.headers["authorization"], namespace)
    before = worker_of(service).pid
    log_before = (service.data / "log/api.log").read_text()
    seen: set[bytes] = set()
    for number in range(TRIES):
        sent = rng.choice(good)
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            sent = rng.choice(CHANGES)(rng, sent)
        if rng.random() < 0.2:
            sent = rng.choice(good) + sent  # behind another one on the same line
        cuts = sorted(rng.randrange(len(sent)) for _ in range(rng.choice([0, 0, 1, 5])))
        pieces = [sent[first:last] for first, last in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
        whole = is_whole(sent)
        answer = send(service.port, pieces, ANSWER_S if whole else SILENCE_S)
        assert answer or not whole, f"no answer to {sent[:2000]!r}"
        status = answer[9:12]
        assert not answer or (answer.startswith(b"HTTP/1.1 ") and status.isdigit()), answer[:200]
        assert status not in (b"500", b"502", b"504"), f"{answer[:500]!r} to {sent[:2000]!r}"
        seen.add(status)
        assert httpx.get(f"{service.url}/live").status_code == 200
        if number % 20 == 0:
            put(http, namespace, "good")
    assert {b"200", b"400", b"404", b"431"} <= seen, seen
    assert worker_of(service).pid == before
    log = (service.data / "log/api.log").read_text()[len(log_before) :]
    assert "Traceback" not in log, log[log.index("Traceback") - 300 :][:6000]


def worker_of(service: Service) -> psutil.Process:
    (worker,) = psutil.Process(service.pid_of("api")).children()
    return worker


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"namespace":"a","topic":"t","body":['])
@pytest.mark.parametrize(
    "path", ["/enqueue", "/ack", "/dequeue", "/messages/1029", "/dlq/replay", "/api/v1/namespaces/deep/"]
)
def test_json_of_any_depth_is_refused(http: httpx.Client, path: str, opening: str) -> None:
    method = "PATCH" if path.startswith("/messages") else "PUT" if path.startswith("/api") else "POST"
    for closing in ("", "]" * 100_000):
        body = opening * (100_000 if len(opening) < 6 else 1) + "[" * 100_000 + closing
        answer = http.request(method, path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 413), answer.text[:300]


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@once
def test_slow_clients_cost_little_and_hold_up_nobody(
    service: Service, http: httpx.Client, namespace: str, many_files: None
) -> None:
    """Each sends half of a request, byte by byte, and would go on for ever."""
    token, worker = http.headers["authorization"], worker_of(service)
    put(http, namespace)
    before = worker.memory_info().rss
    head = (
        f"POST /enqueue HTTP/1.1\r\nhost: x\r\nauthorization: {token}\r\ncontent-length: 8000\r\n\r\n".encode()
        + b"[" * 4000
    )
    lines = []
    try:
        for number in range(SLOW_CLIENTS):
            line = socket.create_connection(("127.0.0.1", service.port), timeout=ANSWER_S)
            line.sendall(head if number % 2 else head[: number % 150])
            lines.append(line)
        for line in lines[:200]:
            line.sendall(b" ")
        began = time.monotonic()
        put(http, namespace)
        assert len(get(http, namespace, limit=10)) == 2
        assert time.monotonic() - began < 2
        grown = worker.memory_info().rss - before
        assert grown < 20_000_000 + SLOW_CLIENTS * 20_000, f"{grown / SLOW_CLIENTS:,.0f} bytes a client"
        print(f"{SLOW_CLIENTS} slow clients: {grown / SLOW_CLIENTS:,.0f} bytes each")
    finally:
        for line in lines:
            line.close()


@once
def test_large_bodies_at_once_stay_within_bounds(service: Service, namespace: str) -> None:
    """Forty clients send sixteen MiB each; who finds no room is told to come again, and finds it then."""
    worker = worker_of(service)
    with service.client() as http:
        token = http.headers["authorization"]
        put(http, namespace)
        before = worker.memory_info().rss
        size = MAX_REQUEST - 1000
        head = f"POST /enqueue HTTP/1.1\r\nhost: x\r\nauthorization: {token}\r\ncontent-length: {size}\r\n\r\n".encode()
        part, lines, refused = b" " * 2**20, [], 0
        try:
            for _ in range(40):
                lines.append(socket.create_connection(("127.0.0.1", service.port), timeout=ANSWER_S))
                lines[-1].sendall(head)
            for _ in range(15):
                for line in list(lines):
                    try:
                        line.sendall(part)
                    except ConnectionError:
                        refused += 1
                        lines.remove(line)
            grown = worker.memory_info().rss - before
            deadline = time.monotonic() + ANSWER_S
            while refused < 30 and time.monotonic() < deadline:  # an answer may be on its way
                for line in list(lines):
                    line.setblocking(False)
                    with contextlib.suppress(BlockingIOError, ConnectionError):
                        answer = line.recv(65536)
                        assert b" 503 " in answer
                        assert b"overloaded" in answer
                        assert b"retry-after: 1\r\n" in answer
                        refused += 1
                        lines.remove(line)
                        line.close()
                time.sleep(0.05)
            assert refused >= 30
            assert grown < 300_000_000, f"{grown / 2**20:,.0f} MiB"
        finally:
            for line in lines:
                line.close()
        deadline = time.monotonic() + 10
        large = [{"namespace": namespace, "topic": "large", "body": "x" * 200_000} for _ in range(60)]
        while (answer := http.post("/enqueue", json=large)).status_code == 503 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert answer.status_code == 200, answer.text
        assert len(answer.json()) == 60


@once
@pytest.mark.parametrize("credential", ["", "authorization: Bearer a.b.c\r\n", "x-api-key: nobody\r\n", "unknown kid"])
def test_large_bodies_of_nobody_take_no_room_from_others(service: Service, namespace: str, credential: str) -> None:
    """They stop short of their end. Who is nobody is told so; of whom nobody knows yet, half of the room is kept."""
    if credential == "unknown kid":
        token = jwt.encode({"sub": "x", "exp": time.time() + 60}, "secret" * 8, headers={"kid": "unknown"})
        credential = f"authorization: Bearer {token}\r\n"
    size = MAX_REQUEST - 1000
    head = f"POST /enqueue HTTP/1.1\r\nhost: x\r\n{credential}content-length: {size}\r\n\r\n".encode()
    lines = []
    try:
        for _ in range(20):
            line = socket.create_connection(("127.0.0.1", service.port), timeout=ANSWER_S)
            lines.append(line)
            with contextlib.suppress(ConnectionError):
                line.sendall(head)
                for _ in range(15):
                    line.sendall(b" " * 2**20)
        with service.client() as http:
            large = [{"namespace": namespace, "topic": "large", "body": "x" * 200_000} for _ in range(60)]
            for _ in range(5):
                assert http.post("/enqueue", json=large).status_code == 200
    finally:
        for line in lines:
            line.close()
