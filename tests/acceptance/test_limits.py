"""Quotas, levels and rates over HTTP, at both adapters; set by the control plane, which acts within two seconds."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.acceptance.calls import Json, depth, get, is_problem, once, put, settle
from tests.acceptance.scrape import scrape
from tests.service import Service

SEEN_S = 2.0


def limit(http: httpx.Client, namespace: str, **quotas: Any) -> None:
    home = f"/api/v1/namespaces/{namespace}/"
    if http.get(home).status_code == 404:
        assert http.put(home, json={}).status_code == 201
    assert http.patch(home + "quotas/", json=quotas).status_code == 200
    time.sleep(SEEN_S)


def add(http: httpx.Client, namespace: str, count: int = 1, **fields: Any) -> httpx.Response:
    message: Json = {"namespace": namespace, "topic": "t", "body": 1} | fields
    return http.post("/enqueue", json=[message] * count)


def refused(answer: httpx.Response, code: str = "quota_exceeded") -> int:
    """The milliseconds after which it says that it will do."""
    is_problem(answer, 429, code)
    milliseconds = int(answer.headers["retry-after-ms"])
    assert int(answer.headers["retry-after"]) == max(1, -(-milliseconds // 1000))
    return milliseconds


def test_a_refusal_says_exactly_when_to_come_again(http: httpx.Client, namespace: str) -> None:
    limit(http, namespace, messages_per_minute=20)
    is_problem(add(http, namespace, 3), 413, "too_large")
    sent = time.monotonic()
    assert add(http, namespace, 2).status_code == 200
    wait_s = refused(add(http, namespace)) / 1000
    began = time.monotonic()
    assert 3.0 - (began - sent) <= wait_s <= 3.0
    time.sleep(max(0.0, wait_s - 1.0))
    refused(add(http, namespace))
    time.sleep(max(0.0, began + wait_s + 0.005 - time.monotonic()))
    assert add(http, namespace).status_code == 200
    refused(add(http, namespace))
    assert depth(http, namespace)["ready"] == 3


def test_what_was_there_already_or_cannot_be_read_costs_nothing(http: httpx.Client, namespace: str) -> None:
    limit(http, namespace, messages_per_minute=20)
    for n in range(5):
        answer = add(http, namespace, idempotency_key="k")
        assert (answer.status_code, answer.headers["mqueue-duplicates"]) == (200, str(int(n > 0)))
        is_problem(add(http, namespace, priority=256), 400, "invalid")
    assert add(http, namespace).status_code == 200
    refused(add(http, namespace))


def test_whoever_asks_again_is_answered_though_there_is_no_room_for_more(http: httpx.Client, namespace: str) -> None:
    """His first answer was lost, and what he wanted is there."""
    limit(http, namespace, max_stored=1, messages_per_minute=20)
    first = add(http, namespace, idempotency_key="k")
    assert first.status_code == 200
    for again in (
        add(http, namespace, idempotency_key="k"),
        add(http, namespace, idempotency_key="k", topic="another"),
        add(http, namespace, 3, idempotency_key="k"),  # more than one minute's burst
    ):
        assert again.status_code == 200, again.text
        assert set(again.json()) == set(first.json())
        assert again.headers["mqueue-duplicates"] == str(len(again.json()))
    refused(add(http, namespace, idempotency_key="new"))
    refused(add(http, namespace))
    mixed = [{"namespace": namespace, "topic": "t", "body": 1, "idempotency_key": key} for key in ("k", "new")]
    assert http.post("/enqueue", json=mixed).status_code in (413, 429)
    assert depth(http, namespace)["ready"] == 1


def test_bytes_count_as_they_are_stored(http: httpx.Client, namespace: str) -> None:
    limit(http, namespace, bytes_per_minute=6_000)
    is_problem(add(http, namespace, body="x" * 599), 413, "too_large")
    sent = time.monotonic()
    assert add(http, namespace, body="x" * 598).status_code == 200
    wait_ms = refused(add(http, namespace, 5, body="x" * 98))
    assert 5_000 - 1_000 * (time.monotonic() - sent) <= wait_ms <= 5_000
    decoded: Json = {"namespace": namespace, "topic": "t", "payload": "eHh4" * 100}
    wait_ms = refused(http.post("/enqueue", json=decoded))
    assert 3_000 - 1_000 * (time.monotonic() - sent) <= wait_ms <= 3_000


def test_limits_are_lifted_live(http: httpx.Client, namespace: str) -> None:
    limit(http, namespace, messages_per_minute=10, max_stored=1)
    put(http, namespace)
    refused(add(http, namespace))
    limit(http, namespace, messages_per_minute=None, max_stored=None)
    for _ in range(5):
        put(http, namespace)


def test_what_is_stored_is_freed_by_ack_cancel_and_delete(http: httpx.Client, namespace: str) -> None:
    limit(http, namespace, max_stored=3)
    is_problem(add(http, namespace, 4), 413, "too_large")
    put(http, namespace)
    later = put(http, namespace, delay_ms=60_000)
    refused(add(http, namespace, 2))
    put(http, namespace)
    assert refused(add(http, namespace)) == 1000
    one, two = get(http, namespace, limit=2)
    refused(add(http, namespace))
    settle(http, "ack", one)
    put(http, namespace)
    settle(http, "nack", two, dead=True)
    refused(add(http, namespace))
    http.post("/dlq/delete", json={"namespace": namespace, "topic": "t", "all": True})
    put(http, namespace)
    http.delete(f"/messages/{later}", params={"namespace": namespace, "topic": "t"})
    put(http, namespace)
    refused(add(http, namespace))


def test_a_dequeue_gets_what_is_left_of_the_leases(http: httpx.Client, namespace: str) -> None:
    limit(http, namespace, max_in_flight=3)
    for n in range(9):
        put(http, namespace, f"t{n % 2}")
    held = get(http, namespace, "t0", limit=2) + get(http, namespace, "t1", limit=10)
    assert len(held) == 3
    asked = {"namespace": namespace, "topic": "t0"}
    assert refused(http.get("/dequeue", params=asked)) == 1000
    for verb in ("ack", "nack", "release"):
        settle(http, verb, held.pop())
        held += get(http, namespace, "t0", limit=5)
        assert len(held) == 3
        refused(http.get("/dequeue", params=asked))
    began = time.monotonic()
    assert get(http, namespace, "t0", wait_ms=300) == []
    assert time.monotonic() - began > 0.25


def test_a_lease_that_runs_out_makes_room_for_who_waits(http: httpx.Client, namespace: str) -> None:
    limit(http, namespace, max_in_flight=1)
    first, second = put(http, namespace), put(http, namespace)
    (held,) = get(http, namespace, visibility_ms=1_000)
    (found,) = get(http, namespace, wait_ms=5_000)
    assert (held["id"], found["id"]) == (first, second)  # what has lapsed is due since then


def test_a_topic_hands_out_at_its_rate(http: httpx.Client, namespace: str) -> None:
    for _ in range(9):
        put(http, namespace)
    rate = {"capacity": 3, "refill_per_s": 1}
    assert http.patch(f"/api/v1/namespaces/{namespace}/topics/t/", json={"rate": rate}).status_code == 200
    time.sleep(SEEN_S)
    sent = time.monotonic()
    assert len(get(http, namespace, limit=9)) == 3
    asked = {"namespace": namespace, "topic": "t"}
    wait_s = refused(http.get("/dequeue", params=asked), "rate_limited") / 1000
    assert 1.0 - (time.monotonic() - sent) <= wait_s <= 1.0
    time.sleep(wait_s + 0.005)  # from the answer on: a request takes its time
    handed = 3
    while handed < 6:  # one at a time, but for a moment in which the machine stood still
        handed += len(get(http, namespace, wait_ms=5_000, limit=9))
        assert handed <= 3 + time.monotonic() - sent + 0.01


def test_a_tenant_names_no_more_topics_than_it_may(http: httpx.Client, namespace: str) -> None:
    limit(http, namespace, max_topics=5)

    def name(*topics: str) -> httpx.Response:
        return http.post("/enqueue", json=[{"namespace": namespace, "topic": topic, "body": 1} for topic in topics])

    with ThreadPoolExecutor(8) as racing:
        answers = list(racing.map(name, [f"t{n}" for n in range(40)]))
    assert Counter(answer.status_code for answer in answers) == {200: 5, 429: 35}
    for answer in answers:
        if answer.status_code == 429:
            is_problem(answer, 429, "quota_exceeded")
    (there,) = [f"t{n}" for n, answer in enumerate(answers) if answer.status_code == 200][:1]
    assert name(there, "new").status_code == 429  # all of a request, or nothing
    assert depth(http, namespace, there)["ready"] == 1
    assert name(there).status_code == 200
    assert http.get("/dequeue", params={"namespace": namespace, "topic": "unknown"}).json() == []
    assert http.delete(f"/api/v1/namespaces/{namespace}/topics/{there}/?force=true").status_code == 204
    time.sleep(SEEN_S)
    assert name("new").status_code == 200
    assert name(there).status_code == 429


def test_a_poll_whose_key_was_revoked_gets_nothing(service: Service, http: httpx.Client, namespace: str) -> None:
    put(http, namespace)
    settle(http, "ack", get(http, namespace)[0])
    home = f"/api/v1/namespaces/{namespace}/"
    key = http.post(home + "keys/", json={"scopes": ["dequeue"]}).json()
    answers: list[httpx.Response] = []

    def poll() -> None:
        with httpx.Client(base_url=service.url, headers={"X-Api-Key": key["secret"]}, timeout=30) as worker:
            asked: Json = {"namespace": namespace, "topic": "t", "wait_ms": 10_000}
            answers.append(worker.get("/dequeue", params=asked))

    waiting = threading.Thread(target=poll)
    waiting.start()
    time.sleep(0.5)
    assert http.delete(f"{home}keys/{key['kid']}/").status_code == 204
    time.sleep(SEEN_S)
    number = put(http, namespace)
    waiting.join(10)
    is_problem(answers[0], 401, "unauthenticated")
    (found,) = get(http, namespace, wait_ms=2_000)
    assert (found["id"], found["attempt"]) == (number, 1)


@once
def test_refusals_are_counted(service: Service, http: httpx.Client, namespace: str) -> None:
    limit(http, namespace, messages_per_minute=10)
    put(http, namespace)
    for _ in range(3):
        refused(add(http, namespace))
    time.sleep(1.1)  # a scrape may be a second old
    found = scrape(service)
    assert found.get("mqueue_refused_total", namespace=namespace, limit="messages_per_minute") == 3
