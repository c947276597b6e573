"""Both adapters give the same answer to whatever comes, also where no handler is reached."""

import socket
from collections.abc import Iterator

import pytest

from mqueue.core import tokens
from tests.acceptance.conftest import Services
from tests.service import SECRET

TOKEN = tokens.make(SECRET, "tester", ["*"], ["*"], 3600)
LOWER = f"Authorization: bearer {TOKEN}"
OTHER = f"Authorisation: Bearer {TOKEN}"
AUTH = f"Authorization: Bearer {TOKEN}"
HOST = "Host: localhost"
JSON = "Content-Type: application/json"
PLACE = "namespace=n&topic=t"
COUNTED = ("status", "allow", "cache-control", "content-type", "mqueue-duplicates", "retry-after", "www-authenticate")


def ask(port: int, line: str, *headers: str, body: bytes = b"") -> dict[str, str]:
    """Byte for byte what is said here; clients would mend half of it."""
    head = "\r\n".join([f"{line} HTTP/1.1", *headers, "Connection: close", "", ""]).encode("latin-1")
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line_:
        line_.sendall(head + body)
        answer = b"".join(_until_closed(line_))
    top, _, rest = answer.partition(b"\r\n\r\n")
    first, *named = top.decode("latin-1").split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in named)}
    found = fields | {"status": first.split(" ")[1]}
    return {name: found[name] for name in COUNTED if name in found} | {"body": rest.decode("latin-1")}


def _until_closed(line: socket.socket) -> Iterator[bytes]:
    while part := line.recv(65_536):
        yield part


def sized(body: bytes) -> str:
    return f"Content-Length: {len(body)}"


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))


ONE = b'{"namespace": "n-adapters", "topic": "never", "id": 5}'
REQUESTS = {
    "no token": ("GET /stats?namespace=n", HOST),
    "another scheme": ("GET /stats?namespace=n", HOST, "Authorization: Basic YTpi"),
    "an empty token": ("GET /stats?namespace=n", HOST, "Authorization: Bearer "),
    "a scheme in lower case": ("GET /stats?namespace=never-made", HOST, LOWER),
    "the other spelling": ("GET /stats?namespace=never-made", HOST, OTHER),
    "an empty header beside the other": ("GET /stats?namespace=never-made", HOST, "Authorization:", OTHER),
    "an API key that is none": ("GET /stats?namespace=n", HOST, "X-Api-Key: mq_x"),
    "an API key of no record": ("GET /stats?namespace=n", HOST, f"X-Api-Key: mq_{'0' * 16}_{'A' * 43}"),
    "an API key that is not ascii": ("GET /stats?namespace=n", HOST, "X-Api-Key: \xe9\xff"),
    "an empty API key": ("GET /stats?namespace=n", HOST, "X-Api-Key: "),
    "an API key beside a token": ("GET /stats?namespace=never-made", HOST, AUTH, "X-Api-Key: mq_x"),
    "an API key as a token": ("GET /stats?namespace=n", HOST, f"Authorization: Bearer mq_{'0' * 16}_{'A' * 43}"),
    "a token that is not ascii": ("GET /stats?namespace=n", HOST, "Authorization: Bearer \xe9\xff"),
    "a session cookie and no token": ("POST /ack", HOST, JSON, "Cookie: sessionid=x; csrftoken=y", sized(ONE)),
    "a cookie beside the token": ("POST /ack", HOST, JSON, AUTH, "Cookie: sessionid=x", sized(ONE)),
    "a foreign origin": ("POST /ack", HOST, JSON, AUTH, "Origin: http://evil.example", sized(ONE)),
    "no host": ("POST /ack", "Host:", JSON, AUTH, sized(ONE)),
    "a host that is none": ("POST /ack", "Host: a_b c", JSON, AUTH, sized(ONE)),
    "another host": ("POST /ack", "Host: queue.internal:99", JSON, AUTH, sized(ONE)),
    "a forwarded host": ("POST /ack", HOST, "X-Forwarded-Host: a b", JSON, AUTH, sized(ONE)),
    "OPTIONS": ("OPTIONS /enqueue", HOST),
    "HEAD of a verb": ("HEAD /dequeue?" + PLACE, HOST, AUTH),
    "HEAD of an open path": ("HEAD /live", HOST),
    "POST of an open path": ("POST /health", HOST, sized(b"")),
    "a method of one's own": ("FROB /messages/5", HOST, AUTH),
    "an override of the method": ("POST /messages/5", HOST, AUTH, "X-HTTP-Method-Override: DELETE", sized(b"")),
    "wrong method without a token": ("GET /enqueue", HOST),
    "no media": ("POST /ack", HOST, AUTH, sized(ONE)),
    "media with a charset": ("POST /ack", HOST, AUTH, "Content-Type: Application/JSON; charset=utf-8", sized(ONE)),
    "text": ("POST /ack", HOST, AUTH, "Content-Type: text/plain", sized(ONE)),
    "a form in parts": ("POST /ack", HOST, AUTH, "Content-Type: multipart/form-data; boundary=x", sized(ONE)),
    "media without a token": ("POST /ack", HOST, "Content-Type: text/plain", sized(ONE)),
    "a body in a GET": ("GET /dequeue?" + PLACE, HOST, AUTH, JSON, sized(ONE)),
    "a body in a DELETE": ("DELETE /messages/5?" + PLACE, HOST, AUTH, "Content-Type: text/plain", sized(ONE)),
    "chunks": ("POST /ack", HOST, AUTH, JSON, "Transfer-Encoding: chunked"),
    "no body": ("POST /ack", HOST, AUTH, JSON),
    "Accept: text/html": ("POST /ack", HOST, AUTH, JSON, "Accept: text/html", sized(ONE)),
    "a format": ("GET /stats?namespace=never-made&format=html", HOST, AUTH),
    "a query that is not ascii": ("GET /stats?namespace=\xff\xe9", HOST, AUTH),
    "an escape that is not utf-8": ("GET /stats?namespace=%ff", HOST, AUTH),
    "NUL in a query": ("GET /stats?namespace=n&after=%00", HOST, AUTH),
    "NUL in a key": ("GET /messages?namespace=n&idempotency_key=%00", HOST, AUTH),
    "a plus": ("GET /messages?namespace=n&idempotency_key=a+b%2B", HOST, AUTH),
    "a field twice": ("GET /stats?namespace=UPPER&namespace=never-made", HOST, AUTH),
    "an id with an escape": ("GET /messages/%35?" + PLACE, HOST, AUTH),
    "an id with a slash": ("GET /messages/5%2Ftrace?" + PLACE, HOST, AUTH),
    "an id with a line break": ("GET /messages/5%0A?" + PLACE, HOST, AUTH),
    "an id in other digits": ("GET /messages/%D9%A5?" + PLACE, HOST, AUTH),
    "an id that is not utf-8": ("GET /messages/%FF?" + PLACE, HOST, AUTH),
    "no id": ("GET /messages/?" + PLACE, HOST, AUTH),
    "no id before the trace": ("GET /messages//trace?" + PLACE, HOST, AUTH),
    "a slash at the end": ("POST /enqueue/", HOST, AUTH, JSON, sized(ONE)),
    "two slashes": ("POST //ack", HOST, AUTH, JSON, sized(ONE)),
    "upper case": ("POST /ACK", HOST, AUTH, JSON, sized(ONE)),
    "an unknown path": ("POST /unknown", HOST, JSON, sized(ONE)),
    "a whole URL": ("GET http://elsewhere/live", HOST),
    "chunks over the limit": ("POST /enqueue", HOST, AUTH, JSON, "Transfer-Encoding: chunked"),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_both_adapters_answer_alike(services: Services, name: str) -> None:
    request = REQUESTS[name]
    body = {
        "chunks": chunked(ONE[:10], ONE[10:]),
        "chunks over the limit": chunked(*[b" " * (1024 * 1024)] * 17),
    }.get(name, ONE if request[-1] == sized(ONE) else b"")
    fast, django = (ask(services[adapter].port, *request, body=body) for adapter in ("fast lane", "django"))
    assert fast == django
    assert int(fast["status"]) < 500
    assert fast.get("content-type", "application/problem+json") in ("application/json", "application/problem+json")
