"""Topics whose durability is `buffered`, over HTTP: 202, and then as any other."""

import time
from typing import Any

import httpx
import pytest

from tests.acceptance.calls import events_of, get, is_problem, look, once, put, settle
from tests.acceptance.scrape import scrape
from tests.service import Service

SEEN_S = 2.0


@pytest.fixture
def topic(http: httpx.Client, namespace: str) -> str:
    """Buffered, and every process knows it."""
    home = f"/api/v1/namespaces/{namespace}/"
    assert http.put(home, json={}).status_code == 201
    assert http.put(f"{home}topics/t/", json={"durability": "buffered"}).status_code == 201
    time.sleep(SEEN_S)
    return "t"


def send(http: httpx.Client, namespace: str, *bodies: Any, **fields: Any) -> list[int]:
    answer = http.post(
        "/enqueue", json=[{"namespace": namespace, "topic": "t", "body": one} | fields for one in bodies]
    )
    assert answer.status_code == 202, answer.text
    assert answer.headers["mqueue-duplicates"] == "0"
    ids: list[int] = answer.json()
    return ids


def test_it_answers_202_and_the_messages_come_in_order(http: httpx.Client, namespace: str, topic: str) -> None:
    ids = [number for n in range(20) for number in send(http, namespace, n, -n)]
    found: list[Any] = []
    deadline = time.monotonic() + 5
    while len(found) < 40 and time.monotonic() < deadline:
        found += get(http, namespace, limit=40, wait_ms=1000)
    assert [message["id"] for message in found] == ids
    for message in found:
        assert settle(http, "ack", message).json()["state"] == "acked"
    assert [event["event"] for event in events_of(http, ids[0], namespace)] == ["published", "delivered", "acked"]


def test_all_that_a_message_says_is_kept(http: httpx.Client, namespace: str, topic: str) -> None:
    fields = {"priority": 7, "headers": {"a": "ü"}, "traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "max_retries": 1}
    (number,) = send(http, namespace, {"x": [1, None]}, **fields, retry={"base_ms": 10, "jitter": 0})
    (found,) = get(http, namespace, wait_ms=2000)
    assert (found["id"], found["body"]) == (number, {"x": [1, None]})
    assert {name: found[name] for name in fields} == fields
    retrying = settle(http, "nack", found).json()
    assert retrying["state"] == "retrying"
    assert look(http, number, namespace).json()["priority"] == 7


def test_a_consumer_that_waits_has_it_soon(http: httpx.Client, service: Service, namespace: str, topic: str) -> None:
    send(http, namespace, "warm")
    get(http, namespace, wait_ms=2000)
    took = []
    for n in range(10):
        began = time.monotonic()
        send(http, namespace, n)
        assert get(http, namespace, wait_ms=2000)
        took.append(time.monotonic() - began)
    assert sorted(took)[5] < 0.15  # measured 0.03 on a busy machine


def test_it_is_looked_at_when_it_is_committed(http: httpx.Client, service: Service, namespace: str, topic: str) -> None:
    (number,) = send(http, namespace, 1, delay_ms=60_000)
    service.until(lambda: look(http, number, namespace).status_code == 200, 2, "it is committed")
    assert look(http, number, namespace).json()["state"] == "scheduled"


def test_a_message_with_a_key_is_committed_at_once(http: httpx.Client, namespace: str, topic: str) -> None:
    number = put(http, namespace, idempotency_key="k")  # 200
    assert put(http, namespace, idempotency_key="k") == number
    both = [{"namespace": namespace, "topic": "t", "body": n} | ({"idempotency_key": "k"} if n else {}) for n in (0, 1)]
    answer = http.post("/enqueue", json=both)
    assert answer.status_code == 202
    assert answer.headers["mqueue-duplicates"] == "1"
    assert answer.json()[1] == number


def test_a_bad_request_is_refused_as_ever(http: httpx.Client, namespace: str, topic: str) -> None:
    answer = http.post("/enqueue", json={"namespace": namespace, "topic": "t", "body": 1, "priority": 256})
    is_problem(answer, 400, "invalid")


@once
def test_its_numbers_are_shown(http: httpx.Client, service: Service, namespace: str, topic: str) -> None:
    send(http, namespace, *range(5))

    def counted(verb: str) -> float | None:
        return scrape(service).get(f"mqueue_{verb}_total", namespace=namespace, topic="t")

    service.until(lambda: counted("buffered") == counted("enqueue") == 5, 5, "both are counted")
    depth = "mqueue_buffer_queue_depth"
    service.until(lambda: scrape(service).get(depth, shard="0") == scrape(service).get(depth, shard="1") == 0, 5, "0")
    found = scrape(service)
    assert found.get("mqueue_wal_quarantined") == 0
    assert found.get("mqueue_wal_bytes") is not None
    assert httpx.get(f"{service.url}/health").json()["wal"] == {"status": "OK"}
