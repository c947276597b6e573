"""Short ways to call the service, and to say what an answer has to be."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

PROBLEM = "application/problem+json"
Json = dict[str, Any]
once = pytest.mark.parametrize("adapter", ["fast lane"], indirect=True)  # not about what an adapter does


def put(http: httpx.Client, namespace: str, topic: str = "t", **fields: Any) -> int:
    answer = http.post("/enqueue", json={"namespace": namespace, "topic": topic, "body": 1} | fields)
    assert answer.status_code == 200, answer.text
    (message_id,) = answer.json()
    return int(message_id)


def get(http: httpx.Client, namespace: str, topic: str = "t", **more: Any) -> list[Json]:
    answer = http.get("/dequeue", params={"namespace": namespace, "topic": topic} | more)
    assert answer.status_code == 200, answer.text
    found: list[Json] = answer.json()
    return found


def settle(http: httpx.Client, verb: str, message: Json, **more: Any) -> httpx.Response:
    named = {name: message[name] for name in ("id", "namespace", "topic", "receipt") if name in message}
    return http.post(f"/{verb}", json=named | more)


def look(http: httpx.Client, message_id: int, namespace: str, topic: str = "t") -> httpx.Response:
    return http.get(f"/messages/{message_id}", params={"namespace": namespace, "topic": topic})


def state_of(http: httpx.Client, message_id: int, namespace: str, topic: str = "t") -> str:
    answer = look(http, message_id, namespace, topic)
    return str(answer.json()["state"]) if answer.status_code == 200 else str(answer.status_code)


def events_of(http: httpx.Client, message_id: int, namespace: str, topic: str = "t") -> list[Json]:
    answer = http.get(f"/messages/{message_id}/trace", params={"namespace": namespace, "topic": topic})
    assert answer.status_code == 200, answer.text
    events: list[Json] = answer.json()["events"]
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)
    return events


def dead_letters(http: httpx.Client, namespace: str, **more: Any) -> list[Json]:
    answer = http.get("/dlq", params={"namespace": namespace} | more)
    assert answer.status_code == 200, answer.text
    letters: list[Json] = answer.json()
    return letters


def depth(http: httpx.Client, namespace: str, topic: str = "t") -> Json:
    (found,) = http.get("/stats", params={"namespace": namespace, "topic": topic}).json()["topics"]
    return {name: found[name] for name in ("ready", "scheduled", "leased", "dead")}


def is_problem(answer: httpx.Response, status: int, code: str) -> Json:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM
    fields: Json = answer.json()
    assert (fields["status"], fields["code"]) == (status, code)
    assert fields["type"]
    assert fields["title"]
    assert fields["detail"]
    return fields


Kill = Callable[..., int]


def die(http: httpx.Client, namespace: str, topic: str = "t", **fields: Any) -> int:
    """A message that is a dead letter by now."""
    message_id = put(http, namespace, topic, **fields)
    (found,) = get(http, namespace, topic)
    assert settle(http, "nack", found, dead=True, error="no such customer").json()["state"] == "dead"
    return message_id
