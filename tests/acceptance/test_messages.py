"""Looking at messages, cancelling and moving them, over HTTP against real processes."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.acceptance.calls import depth, die, events_of, get, is_problem, look, put, settle, state_of
from tests.service import Service


def change(http: httpx.Client, message_id: int, namespace: str, **fields: Any) -> httpx.Response:
    return http.patch(f"/messages/{message_id}", json={"namespace": namespace, "topic": "t"} | fields)


def cancel(http: httpx.Client, message_id: int, namespace: str, topic: str = "t") -> httpx.Response:
    return http.delete(f"/messages/{message_id}", params={"namespace": namespace, "topic": topic})


def test_a_look_shows_the_message_and_its_state(http: httpx.Client, namespace: str) -> None:
    message_id = put(http, namespace, body={"n": 1}, headers={"h": "v"}, priority=9, delay_ms=60_000, max_retries=5)
    seen = look(http, message_id, namespace).json()
    assert (seen["id"], seen["namespace"], seen["topic"], seen["state"]) == (message_id, namespace, "t", "scheduled")
    assert (seen["body"], seen["headers"], seen["priority"], seen["attempts"]) == ({"n": 1}, {"h": "v"}, 9, 0)
    assert (seen["max_retries"], seen["deliver_after"] == seen["due"]) == (5, True)


def test_every_state(http: httpx.Client, namespace: str) -> None:
    acked, nacked, leased = put(http, namespace), put(http, namespace), put(http, namespace)
    found = get(http, namespace, limit=3)
    assert [message["id"] for message in found] == [acked, nacked, leased]
    settle(http, "ack", found[0])
    settle(http, "nack", found[1])
    dead = die(http, namespace, priority=0)
    ready, scheduled, cancelled = put(http, namespace), put(http, namespace, delay_ms=9_000), put(http, namespace)
    cancel(http, cancelled, namespace)
    states = [state_of(http, n, namespace) for n in (ready, scheduled, leased, acked, nacked, dead, cancelled)]
    assert states == ["ready", "scheduled", "leased", "acked", "scheduled", "dead", "cancelled"]
    assert depth(http, namespace) == {"ready": 1, "scheduled": 2, "leased": 1, "dead": 1}
    assert state_of(http, ready, namespace, "other") == "404"
    is_problem(look(http, 1, namespace), 404, "not_found")
    is_problem(look(http, ready, "never-made"), 404, "not_found")


@pytest.mark.parametrize("delay_ms", [0, 60_000], ids=["ready", "scheduled"])
def test_cancel(http: httpx.Client, namespace: str, delay_ms: int) -> None:
    message_id = put(http, namespace, delay_ms=delay_ms)
    assert cancel(http, message_id, namespace).json() == {"id": message_id, "state": "cancelled"}
    assert get(http, namespace) == []
    is_problem(cancel(http, message_id, namespace), 404, "not_found")
    assert [event["event"] for event in events_of(http, message_id, namespace)] == ["published", "cancelled"]


def test_what_a_consumer_holds_is_not_changed(http: httpx.Client, namespace: str) -> None:
    message_id = put(http, namespace)
    (found,) = get(http, namespace)
    is_problem(cancel(http, message_id, namespace), 409, "leased")
    is_problem(change(http, message_id, namespace, priority=1), 409, "leased")
    settle(http, "nack", found, delay_ms=60_000)
    assert cancel(http, message_id, namespace).json()["state"] == "cancelled"


def test_there_is_nothing_to_cancel_among_the_settled(http: httpx.Client, namespace: str) -> None:
    acked = put(http, namespace)
    (found,) = get(http, namespace)
    settle(http, "ack", found)
    for message_id in (acked, die(http, namespace), 1):
        is_problem(cancel(http, message_id, namespace), 404, "not_found")
        is_problem(change(http, message_id, namespace, priority=1), 404, "not_found")
    other = put(http, namespace)
    is_problem(cancel(http, other, namespace, "another"), 404, "not_found")
    assert state_of(http, other, namespace) == "ready"


def test_a_new_priority_keeps_due(http: httpx.Client, namespace: str) -> None:
    first, second, third = (put(http, namespace, body=n) for n in range(3))
    due = look(http, third, namespace).json()["due"]
    assert change(http, third, namespace, priority=1).json() == {"id": third, "state": "ready"}
    assert look(http, third, namespace).json()["due"] == due
    found = get(http, namespace, limit=3)
    assert [message["id"] for message in found] == [third, first, second]
    assert [message["priority"] for message in found] == [1, 5, 5]


def test_a_new_time_moves_it_there_and_back(http: httpx.Client, namespace: str) -> None:
    message_id = put(http, namespace)
    assert change(http, message_id, namespace, delay_ms=60_000).json()["state"] == "scheduled"
    assert get(http, namespace) == []
    past = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    assert change(http, message_id, namespace, deliver_after=past).json()["state"] == "ready"
    (found,) = get(http, namespace)
    assert found["attempt"] == 1
    assert [event["event"] for event in events_of(http, message_id, namespace)] == [
        "published", "moved", "moved", "delivered",
    ]  # fmt: skip


def test_a_moved_message_wakes_a_consumer_at_its_new_time(http: httpx.Client, namespace: str) -> None:
    message_id = put(http, namespace, delay_ms=60_000)
    change(http, message_id, namespace, delay_ms=400)
    began = time.monotonic()
    (found,) = get(http, namespace, wait_ms=5000)
    assert found["id"] == message_id
    assert 0.3 < time.monotonic() - began < 0.6


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"priority": 256},
        {"priority": "1"},
        {"delay_ms": -1},
        {"delay_ms": 1, "deliver_after": "2026-01-01T00:00:00Z"},
    ],
)
def test_a_move_that_says_nothing_or_nonsense_is_refused(http: httpx.Client, fields: dict[str, Any]) -> None:
    assert is_problem(change(http, 5, "n", **fields), 400, "invalid")["errors"]


def test_a_peek_shows_the_head_and_leases_nothing(http: httpx.Client, namespace: str) -> None:
    ids = {priority: put(http, namespace, priority=priority) for priority in (9, 1, 5)}
    later = put(http, namespace, delay_ms=60_000)
    for _ in range(2):
        answer = http.get("/messages", params={"namespace": namespace, "topic": "t", "state": "ready", "limit": 2})
        assert [message["id"] for message in answer.json()] == [ids[1], ids[5]]
    answer = http.get("/messages", params={"namespace": namespace, "topic": "t", "state": "scheduled"})
    assert [message["id"] for message in answer.json()] == [later]
    get(http, namespace)
    answer = http.get("/messages", params={"namespace": namespace, "topic": "t", "state": "leased"})
    assert [(message["id"], message["state"]) for message in answer.json()] == [(ids[1], "leased")]


def test_a_trace_names_every_step_its_time_and_who(service: Service, namespace: str) -> None:
    with service.client(subject="ada") as ada, service.client(subject="bob") as bob:
        message_id = put(ada, namespace)
        (found,) = get(bob, namespace)
        settle(bob, "nack", found, error="boom", delay_ms=0)
        (found,) = get(ada, namespace)
        settle(ada, "release", found)
        (found,) = get(bob, namespace)
        settle(bob, "ack", found)
        events = events_of(ada, message_id, namespace)
    assert all(event.keys() == {"event", "at", "attempt", "consumer", "detail"} for event in events)
    assert [(event["event"], event["attempt"], event["consumer"]) for event in events] == [
        ("published", 0, "ada"), ("delivered", 1, "bob"), ("nacked", 1, "bob"), ("redelivered", 2, "ada"),
        ("released", 2, "ada"), ("redelivered", 2, "bob"), ("acked", 2, "bob"),
    ]  # fmt: skip
    assert events[2]["detail"] == "boom"


def test_a_trace_of_nothing_is_not_found(http: httpx.Client, namespace: str) -> None:
    answer = http.get("/messages/5/trace", params={"namespace": namespace, "topic": "t"})
    is_problem(answer, 404, "not_found")


def test_stats_list_the_topics_by_name(http: httpx.Client, namespace: str) -> None:
    for topic in ("b", "a", "C"):
        put(http, namespace, topic)
    time.sleep(0.05)
    topics = http.get("/stats", params={"namespace": namespace}).json()["topics"]
    assert [topic["topic"] for topic in topics] == ["C", "a", "b"]
    assert all(topic["ready"] == 1 and 40 < topic["oldest_ready_age_ms"] < 5000 for topic in topics)
    rest = http.get("/stats", params={"namespace": namespace, "after": "a"}).json()["topics"]
    assert [topic["topic"] for topic in rest] == ["b"]
    assert http.get("/stats", params={"namespace": "never-made"}).json() == {"topics": []}


@pytest.mark.parametrize("path", ["/messages/abc", "/messages/-1", "/messages/9007199254740992"])
def test_what_is_no_id_is_refused(http: httpx.Client, path: str) -> None:
    is_problem(http.get(path, params={"namespace": "n", "topic": "t"}), 400, "invalid")


def test_a_path_that_nothing_serves_is_not_found(http: httpx.Client) -> None:
    is_problem(http.get("/messages/5/nonsense"), 404, "not_found")
    is_problem(http.put("/messages/5"), 405, "method_not_allowed")


def test_any_scope_of_the_namespace_may_look(service: Service, namespace: str) -> None:
    with service.client() as http:
        message_id = put(http, namespace)
    paths = [f"/messages/{message_id}", f"/messages/{message_id}/trace", "/messages", "/stats"]
    for scopes in (["dlq"], ["enqueue"], [f"{namespace}:dequeue"]):
        with service.client(namespaces=[namespace], scopes=scopes) as http:
            for path in paths:
                assert http.get(path, params={"namespace": namespace, "topic": "t"}).status_code == 200
    for names, scopes in (([namespace], ["other:dequeue"]), (["other"], ["*"])):
        with service.client(namespaces=names, scopes=scopes) as http:
            for path in paths:
                is_problem(http.get(path, params={"namespace": namespace, "topic": "t"}), 403, "forbidden")


def test_changing_needs_the_scope_enqueue(service: Service, namespace: str) -> None:
    with service.client(namespaces=[namespace], scopes=["dequeue", "dlq"]) as http:
        is_problem(cancel(http, 5, namespace), 403, "forbidden")
        is_problem(change(http, 5, namespace, priority=1), 403, "forbidden")
