"""The first steps of a client, over HTTP against real processes."""

import base64
import json
import time
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.acceptance.calls import once
from tests.service import SECRET, Service

PROBLEM = "application/problem+json"


def put(http: httpx.Client, namespace: str, topic: str = "t", **fields: Any) -> int:
    answer = http.post("/enqueue", json={"namespace": namespace, "topic": topic, "body": 1} | fields)
    assert answer.status_code == 200, answer.text
    (message_id,) = answer.json()
    return int(message_id)


def get(http: httpx.Client, namespace: str, topic: str = "t", **more: Any) -> list[dict[str, Any]]:
    answer = http.get("/dequeue", params={"namespace": namespace, "topic": topic} | more)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


def is_problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM
    fields: dict[str, Any] = answer.json()
    assert (fields["status"], fields["code"]) == (status, code)
    assert fields["type"]
    assert fields["title"]
    assert fields["detail"]
    return fields


def test_enqueue_dequeue_ack(http: httpx.Client, namespace: str) -> None:
    before = datetime.now(UTC)
    message_id = put(http, namespace, body={"to": "ada"}, headers={"h": "1"})
    (found,) = get(http, namespace)
    assert found.keys() == {
        "id", "namespace", "topic", "priority", "body", "headers", "attempt", "max_retries", "enqueued_at",
        "deliver_after", "lease_expires_at", "receipt",
    }  # fmt: skip
    assert (found["id"], found["body"], found["headers"]) == (message_id, {"to": "ada"}, {"h": "1"})
    assert (found["attempt"], found["max_retries"], found["priority"], found["deliver_after"]) == (1, 3, 5, None)
    assert found["enqueued_at"].endswith("Z")
    enqueued = datetime.fromisoformat(found["enqueued_at"])
    expires = datetime.fromisoformat(found["lease_expires_at"])
    assert abs((enqueued - before).total_seconds()) < 5
    assert 29 < (expires - enqueued).total_seconds() < 35
    settle = {"id": message_id, "namespace": namespace, "topic": "t", "receipt": found["receipt"]}
    assert http.post("/ack", json=settle).json() == {"id": message_id, "state": "acked"}
    assert http.post("/ack", json=settle).status_code == 200
    assert get(http, namespace) == []


def test_what_a_dequeue_answers_is_what_an_ack_takes(http: httpx.Client, namespace: str) -> None:
    ids = http.post("/enqueue", json=[{"namespace": namespace, "topic": "t", "body": n} for n in range(3)]).json()
    answer = http.post("/dequeue", json={"namespace": namespace, "topic": "t", "limit": 10})
    assert answer.headers["cache-control"] == "no-store"
    assert [message["id"] for message in answer.json()] == ids
    settled = http.post("/ack", content=answer.content, headers={"content-type": "application/json"})
    assert settled.json() == [{"id": message_id, "state": "acked"} for message_id in ids]


def test_a_binary_payload_comes_back_to_the_byte(http: httpx.Client, namespace: str) -> None:
    raw = bytes(range(256)) * 4
    answer = http.post(
        "/enqueue", json={"namespace": namespace, "topic": "t", "payload": base64.b64encode(raw).decode()}
    )
    assert answer.status_code == 200
    (found,) = get(http, namespace)
    assert base64.b64decode(found["payload"]) == raw
    assert "body" not in found


def test_ids_are_safe_integers(http: httpx.Client, namespace: str) -> None:
    assert 0 < put(http, namespace) < 2**53


def test_the_more_urgent_comes_first(http: httpx.Client, namespace: str) -> None:
    ids = {priority: put(http, namespace, priority=priority) for priority in (200, 0, 5)}
    assert [found["id"] for found in get(http, namespace, limit=3)] == [ids[0], ids[5], ids[200]]


def test_an_expired_lease_brings_the_message_again(http: httpx.Client, namespace: str) -> None:
    message_id = put(http, namespace)
    (first,) = get(http, namespace, visibility_ms=1000)
    began = time.monotonic()
    (second,) = get(http, namespace, wait_ms=5000)
    assert 0.9 < time.monotonic() - began < 3
    assert (second["id"], second["attempt"]) == (message_id, 2)
    stale = http.post(
        "/ack", json={"id": message_id, "namespace": namespace, "topic": "t", "receipt": first["receipt"]}
    )
    is_problem(stale, 409, "stale_receipt")


def test_a_bad_batch_changes_nothing(http: httpx.Client, namespace: str) -> None:
    good = {"namespace": namespace, "topic": "t", "body": 1}
    problem = is_problem(http.post("/enqueue", json=[good, good | {"priority": 256}, {"topic": "t"}]), 400, "invalid")
    assert [(error["index"], error["field"]) for error in problem["errors"]] == [(1, "priority"), (2, "namespace")]
    assert get(http, namespace) == []


@pytest.mark.parametrize("path", ["/enqueue", "/dequeue", "/ack"])
def test_every_verb_wants_a_token(service: Service, path: str) -> None:
    with httpx.Client(base_url=service.url) as nobody:
        answer = nobody.post(path, json={"namespace": "default", "topic": "t", "id": 1, "body": 1})
        is_problem(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"
        bad = nobody.post(path, json={}, headers={"Authorization": "Bearer x.y.z"})
        is_problem(bad, 401, "unauthenticated")


def test_the_other_spelling_of_the_header_is_taken_too(service: Service, namespace: str) -> None:
    with service.client() as http:
        token = http.headers.pop("Authorization")
        assert http.get("/dequeue", params={"namespace": namespace, "topic": "t"}).status_code == 401
        http.headers["Authorisation"] = token
        assert http.get("/dequeue", params={"namespace": namespace, "topic": "t"}).json() == []


@pytest.mark.parametrize("path", ["/enqueue", "/dequeue", "/ack"])
def test_a_foreign_namespace_is_forbidden_whether_or_not_it_exists(service: Service, namespace: str, path: str) -> None:
    with service.client() as everybody:
        put(everybody, namespace)
    answers = []
    with service.client(namespaces=["mine"]) as http:
        for foreign in (namespace, f"{namespace}-x"):
            answer = http.post(path, json={"namespace": foreign, "topic": "t", "id": 1, "body": 1})
            is_problem(answer, 403, "forbidden")
            answers.append(answer.text)
    assert answers[0] == answers[1]


@pytest.mark.parametrize(("path", "scope"), [("/enqueue", "enqueue"), ("/dequeue", "dequeue"), ("/ack", "dequeue")])
def test_a_verb_wants_its_scope(service: Service, namespace: str, path: str, scope: str) -> None:
    body = {"namespace": namespace, "topic": "t", "id": 1, "body": 1}
    other = {"enqueue": "dequeue", "dequeue": "enqueue"}[scope]
    with service.client(scopes=[other]) as http:
        is_problem(http.post(path, json=body), 403, "forbidden")
    with service.client(scopes=[f"{namespace}:{scope}"]) as http:
        assert http.post(path, json=body).status_code in (200, 404)


def test_wrong_methods_and_media_are_named(http: httpx.Client) -> None:
    answer = http.get("/enqueue")
    is_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"
    form = http.post("/enqueue", content="a=1", headers={"content-type": "application/x-www-form-urlencoded"})
    is_problem(form, 415, "unsupported_media_type")


def test_too_much_is_refused(http: httpx.Client, namespace: str) -> None:
    is_problem(
        http.post("/enqueue", json={"namespace": namespace, "topic": "t", "body": "x" * 262_144}), 413, "too_large"
    )
    is_problem(http.post("/enqueue", content=b" " * (16 * 1024 * 1024 + 1)), 413, "too_large")


@pytest.mark.parametrize("body", [b"", b"{", b"[[[[", b"\xff\xfe", b"[" * 100_000, b"null"])
def test_garbage_is_a_bad_request(http: httpx.Client, body: bytes) -> None:
    for path in ("/enqueue", "/ack", "/dequeue"):
        is_problem(http.post(path, content=body, headers={"content-type": "application/json"}), 400, "invalid")


def test_an_unknown_path_is_a_problem_too(http: httpx.Client) -> None:
    for path in ("/nothing", "/api/nothing", "/enqueue/"):
        is_problem(http.get(path), 404, "not_found")


def test_health_needs_no_token_and_names_no_tenant(service: Service, http: httpx.Client, namespace: str) -> None:
    put(http, namespace)
    with httpx.Client(base_url=service.url) as nobody:
        health = nobody.get("/health")
        assert health.status_code == 200
        assert health.json()["status"] == "OK"
        assert {"version", "uptime", "uptime_ms", "shards", "redis", "control"} <= health.json().keys()
        assert namespace not in health.text
        assert nobody.get("/live").status_code == nobody.get("/ready").status_code == 200


@once
def test_django_answers_beside_the_data_plane(service: Service) -> None:
    with httpx.Client(base_url=service.url, follow_redirects=True) as browser:
        login = browser.get("/admin/")
        assert login.status_code == 200
        assert "mqueue" in login.text
        assert "csrfmiddlewaretoken" in login.text
        assert browser.get("/static/admin/css/base.css").status_code == 200
        schema = browser.get("/api/schema/?format=json")
        assert json.loads(schema.text)["openapi"].startswith("3.1")
        assert "swagger" in browser.get("/api/docs/").text


@once
def test_the_token_of_the_banner_works(service: Service, namespace: str) -> None:
    headers = {"Authorization": f"Bearer {service.shown_token()}"}
    answer = httpx.post(
        f"{service.url}/enqueue", json={"namespace": namespace, "topic": "t", "body": 1}, headers=headers
    )
    assert answer.status_code == 200


@once
def test_the_secret_is_in_no_output(service: Service) -> None:
    logs = "".join(path.read_text(errors="replace") for path in (service.data / "log").iterdir())
    assert SECRET not in service.output() + logs
