"""Clients that leave before their answer, on the fast lane."""

import contextlib
import http.client
import socket
import time
from collections.abc import Iterator

import httpx
import psutil

from tests.acceptance.calls import events_of, get, once, put, settle, state_of
from tests.service import Service

pytestmark = once


def poll_and_leave(service: Service, client: httpx.Client, path: str, after_s: float) -> None:
    """Send a request, and close the connection without reading the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port)
    connection.putrequest("GET", path)
    connection.putheader("Authorization", client.headers["authorization"])
    connection.endheaders()
    time.sleep(after_s)
    assert isinstance(connection.sock, socket.socket)
    connection.sock.close()
    connection.close()


@contextlib.contextmanager
def stopped_worker(service: Service) -> Iterator[None]:
    (worker,) = psutil.Process(service.pid_of("api")).children()
    worker.suspend()
    try:
        yield
    finally:
        worker.resume()


def test_a_client_that_left_while_it_waited_gets_nothing(service: Service, http: httpx.Client, namespace: str) -> None:
    put(http, namespace, "other")  # so that the namespace is there
    message_id = put(http, namespace)
    (found,) = get(http, namespace)
    poll_and_leave(service, http, f"/dequeue?namespace={namespace}&topic=t&wait_ms=20000", 0.3)
    time.sleep(0.2)
    settle(http, "nack", found, delay_ms=0)
    time.sleep(0.3)
    assert state_of(http, message_id, namespace) == "ready"
    (again,) = get(http, namespace)
    assert again["attempt"] == 2


def test_what_was_popped_for_a_client_that_is_gone_spends_no_attempt(
    service: Service, http: httpx.Client, namespace: str
) -> None:
    ids = [put(http, namespace) for _ in range(40)]
    with stopped_worker(service):  # so that every one of them has left before it is served
        for _ in ids:
            poll_and_leave(service, http, f"/dequeue?namespace={namespace}&topic=t&visibility_ms=43200000", 0)
    deadline = time.monotonic() + 5
    while "leased" in [state_of(http, number, namespace) for number in ids] and time.monotonic() < deadline:
        time.sleep(0.1)
    found = get(http, namespace, limit=100)
    assert [message["id"] for message in found] == ids
    assert {message["attempt"] for message in found} == {1}
    steps = [event["event"] for number in ids for event in events_of(http, number, namespace)]
    assert steps.count("delivered") == steps.count("released") + 40


def test_a_request_that_is_cut_off_in_its_body_adds_nothing(
    service: Service, http: httpx.Client, namespace: str
) -> None:
    put(http, namespace, "other")
    body = b'{"namespace": "%s", "topic": "t", "body": 1}' % namespace.encode()
    head = f"POST /enqueue HTTP/1.1\r\nhost: x\r\nauthorization: {http.headers['authorization']}\r\n"
    with socket.create_connection(("127.0.0.1", service.port)) as line:
        line.settimeout(5)
        line.sendall(f"{head}content-length: {len(body) + 50}\r\n\r\n".encode() + body)
        line.shutdown(socket.SHUT_WR)
        assert not line.recv(65536).startswith(b"HTTP/1.1 200")
    assert get(http, namespace) == []
