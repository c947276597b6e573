"""The dead-letter endpoints, over HTTP against real processes."""

import base64
import time
from typing import Any

import httpx
import pytest

from tests.acceptance.calls import dead_letters, depth, die, events_of, get, is_problem, put, settle, state_of
from tests.service import Service


def test_pages_ascend_by_id_across_topics_and_shards(http: httpx.Client, namespace: str) -> None:
    ids = sorted(die(http, namespace, f"t{n % 5}") for n in range(12))
    assert [letter["id"] for letter in dead_letters(http, namespace)] == ids
    seen: list[int] = []
    while page := dead_letters(http, namespace, limit=5, after=seen[-1] if seen else 0):
        seen += [letter["id"] for letter in page]
    assert seen == ids
    assert dead_letters(http, namespace, topic="never") == []


def test_a_page_goes_on_after_an_id_that_is_gone(http: httpx.Client, namespace: str) -> None:
    ids = sorted(die(http, namespace) for _ in range(3))
    http.post("/dlq/delete", json={"namespace": namespace, "topic": "t", "id": ids[1]})
    assert [letter["id"] for letter in dead_letters(http, namespace, after=ids[1])] == [ids[2]]


def test_a_binary_payload_comes_back(http: httpx.Client, namespace: str) -> None:
    payload = base64.b64encode(b"\x00\xff").decode()
    http.post("/enqueue", json={"namespace": namespace, "topic": "t", "payload": payload})
    (found,) = get(http, namespace)
    settle(http, "nack", found, dead=True)
    (letter,) = dead_letters(http, namespace)
    assert letter["payload"] == payload
    assert "body" not in letter


def test_a_replay_is_the_same_message_due_now_and_new(http: httpx.Client, namespace: str) -> None:
    put(http, namespace, priority=3, body={"x": 1}, max_retries=1)
    (old,) = get(http, namespace)
    settle(http, "nack", old, dead=True)
    place = {"namespace": namespace, "topic": "t", "id": old["id"]}
    assert http.post("/dlq/replay", json=place).json() == {"replayed": 1}
    assert http.post("/dlq/replay", json=place).json() == {"replayed": 0}
    (found,) = get(http, namespace)
    assert (found["id"], found["attempt"], found["priority"], found["body"]) == (old["id"], 1, 3, {"x": 1})
    is_problem(settle(http, "ack", old), 409, "stale_receipt")
    assert settle(http, "ack", found).json()["state"] == "acked"
    assert [event["event"] for event in events_of(http, old["id"], namespace)] == [
        "published", "delivered", "nacked", "dead", "replayed", "delivered", "acked",
    ]  # fmt: skip


def test_many_and_all(http: httpx.Client, namespace: str) -> None:
    ids = [die(http, namespace) for _ in range(6)]
    other = die(http, namespace, "other")
    place: dict[str, Any] = {"namespace": namespace, "topic": "t"}
    chosen = [ids[0], ids[1], ids[1], other, 12345]
    assert http.post("/dlq/delete", json=place | {"ids": chosen}).json() == {"deleted": 2}
    assert http.post("/dlq/replay", json=place | {"ids": [ids[2]]}).json() == {"replayed": 1}
    assert http.post("/dlq/replay", json=place | {"all": True}).json() == {"replayed": 3}
    assert http.post("/dlq/delete", json=place | {"all": True}).json() == {"deleted": 0}
    assert [letter["id"] for letter in dead_letters(http, namespace)] == [other]
    assert depth(http, namespace) == {"ready": 4, "scheduled": 0, "leased": 0, "dead": 0}
    assert state_of(http, ids[0], namespace) == "404"


def test_all_takes_more_than_one_portion(http: httpx.Client, namespace: str) -> None:
    http.post("/enqueue", json=[{"namespace": namespace, "topic": "t", "body": n} for n in range(1200)])
    for _ in range(2):
        found = get(http, namespace, limit=1000)
        http.post("/nack", json=[message | {"dead": True} for message in found])
    place = {"namespace": namespace, "topic": "t"}
    assert http.post("/dlq/replay", json=place | {"all": True}).json() == {"replayed": 1200}
    assert depth(http, namespace)["ready"] == 1200


def test_a_replay_starts_the_ttl_anew(http: httpx.Client, namespace: str) -> None:
    message_id = put(http, namespace, ttl_ms=2_000)
    (found,) = get(http, namespace)
    settle(http, "nack", found, dead=True)
    time.sleep(2)
    http.post("/dlq/replay", json={"namespace": namespace, "topic": "t", "id": message_id})
    (again,) = get(http, namespace)
    assert again["id"] == message_id


@pytest.mark.parametrize("choice", [{}, {"all": False}, {"id": 1, "ids": [1]}, {"ids": [1], "all": True}, {"ids": "x"}])
@pytest.mark.parametrize("verb", ["delete", "replay"])
def test_exactly_one_choice_is_needed(http: httpx.Client, verb: str, choice: dict[str, Any]) -> None:
    answer = http.post(f"/dlq/{verb}", json={"namespace": "n", "topic": "t"} | choice)
    assert is_problem(answer, 400, "invalid")["errors"]


def test_the_scope_is_dlq(service: Service, namespace: str) -> None:
    place: dict[str, Any] = {"namespace": namespace, "topic": "t", "all": True}
    with service.client(namespaces=[namespace], scopes=["enqueue", "dequeue"]) as http:
        is_problem(http.get("/dlq", params={"namespace": namespace}), 403, "forbidden")
        is_problem(http.post("/dlq/delete", json=place), 403, "forbidden")
        is_problem(http.post("/dlq/replay", json=place), 403, "forbidden")
    with service.client(namespaces=[namespace], scopes=["dlq"]) as http:
        assert http.post("/dlq/delete", json=place).json() == {"deleted": 0}
        is_problem(http.post("/dlq/delete", json=place | {"namespace": "other"}), 403, "forbidden")
