"""What the control plane says of a topic holds in the data plane, within a second or two."""

import threading
import time
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.acceptance.calls import dead_letters, events_of, get, look, once, put, settle, state_of

pytestmark = once
SEEN_S = 2.0


@pytest.fixture
def topic(http: httpx.Client, namespace: str) -> str:
    """There, and empty."""
    message = put(http, namespace)
    (found,) = get(http, namespace)
    assert settle(http, "ack", found).json()["id"] == message
    return f"/api/v1/namespaces/{namespace}/topics/t/"


def change(http: httpx.Client, topic: str, **settings: Any) -> None:
    answer = http.patch(topic, json=settings)
    assert answer.status_code == 200, answer.text
    time.sleep(SEEN_S)


def seconds_between(first: str, second: str) -> float:
    return (datetime.fromisoformat(second) - datetime.fromisoformat(first)).total_seconds()


def test_its_visibility_is_the_default_of_a_lease_and_of_an_extension(
    http: httpx.Client, namespace: str, topic: str
) -> None:
    change(http, topic, visibility_ms=600_000)
    put(http, namespace)
    (found,) = get(http, namespace)
    assert 590 < seconds_between(found["enqueued_at"], found["lease_expires_at"]) < 610
    extended = settle(http, "extend", found).json()
    assert 590 < seconds_between(found["enqueued_at"], extended["lease_expires_at"]) < 620
    settle(http, "release", found)
    (found,) = get(http, namespace, visibility_ms=5_000)  # a wish of one's own counts before it
    assert seconds_between(found["enqueued_at"], found["lease_expires_at"]) < 60


def test_its_retries_hold_for_what_says_nothing_of_its_own(http: httpx.Client, namespace: str, topic: str) -> None:
    retry = {"strategy": "constant", "base_ms": 60_000, "max_ms": 60_000, "jitter": 0}
    change(http, topic, max_retries=1, retry=retry)
    number, own = put(http, namespace), put(http, namespace, max_retries=0)
    assert look(http, number, namespace).json()["max_retries"] == 1
    first, second = get(http, namespace, limit=2)
    assert (first["max_retries"], second["max_retries"]) == (1, 0)
    began = time.time()
    retrying = settle(http, "nack", first).json()
    assert retrying["state"] == "retrying"
    assert 55 < datetime.fromisoformat(retrying["next_attempt_at"]).timestamp() - began < 65
    assert settle(http, "nack", second).json()["state"] == "dead"
    assert [letter["id"] for letter in dead_letters(http, namespace)] == [own]


def test_a_lease_that_runs_out_is_judged_by_them_too(http: httpx.Client, namespace: str, topic: str) -> None:
    change(http, topic, max_retries=0)
    number = put(http, namespace)
    get(http, namespace, visibility_ms=1_000)
    deadline = time.monotonic() + 5
    while state_of(http, number, namespace) != "dead" and time.monotonic() < deadline:
        time.sleep(0.1)
    (letter,) = dead_letters(http, namespace)
    assert (letter["id"], letter["reason"], letter["error"]) == (number, "max_retries", "lease expired")


def test_a_paused_topic_takes_messages_and_hands_out_none(http: httpx.Client, namespace: str, topic: str) -> None:
    change(http, topic, paused=True)
    number = put(http, namespace)
    assert get(http, namespace) == []
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.extend(get(http, namespace, wait_ms=10_000)))
    waiting.start()
    time.sleep(1)
    assert got == []
    assert http.patch(topic, json={"paused": False}).status_code == 200
    waiting.join(5)
    assert [message["id"] for message in got] == [number]


def test_without_tracing_deliveries_leave_no_trace_and_settles_do(
    http: httpx.Client, namespace: str, topic: str
) -> None:
    change(http, topic, tracing=False)
    number = put(http, namespace)
    (found,) = get(http, namespace)
    assert settle(http, "ack", found).json() == {"id": number, "state": "acked"}
    assert settle(http, "ack", found).json() == {"id": number, "state": "acked"}
    assert state_of(http, number, namespace) == "acked"
    assert [event["event"] for event in events_of(http, number, namespace)] == ["published", "acked"]
