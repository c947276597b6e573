"""nack, extend, release and what they promise, over HTTP against real processes."""

import time
from datetime import datetime

import httpx
import pytest

from tests.acceptance.calls import dead_letters, events_of, get, is_problem, put, settle, state_of


def seconds_between(first: str, second: str) -> float:
    return (datetime.fromisoformat(second) - datetime.fromisoformat(first)).total_seconds()


def test_a_nack_brings_the_message_again_after_its_backoff(http: httpx.Client, namespace: str) -> None:
    message_id = put(http, namespace, retry={"strategy": "constant", "base_ms": 300, "jitter": 0})
    (first,) = get(http, namespace)
    began = time.monotonic()
    answer = settle(http, "nack", first, error="smtp: 451")
    assert answer.json().keys() == {"id", "state", "next_attempt_at"}
    assert (answer.json()["id"], answer.json()["state"]) == (message_id, "retrying")
    assert state_of(http, message_id, namespace) == "scheduled"
    assert get(http, namespace) == []
    (second,) = get(http, namespace, wait_ms=5000)
    assert 0.28 < time.monotonic() - began < 1.5
    assert (second["id"], second["attempt"]) == (message_id, 2)
    assert second["receipt"] != first["receipt"]


@pytest.mark.parametrize("verb", ["ack", "nack", "extend", "release"])
def test_nothing_to_settle_is_settled_at_once(http: httpx.Client, verb: str) -> None:
    answer = http.post(f"/{verb}", json=[])
    assert (answer.status_code, answer.json()) == (200, [])


@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        ({"strategy": "exponential", "base_ms": 1000, "jitter": 0}, [1, 2, 4]),
        ({"strategy": "exponential", "base_ms": 1000, "max_ms": 1500, "jitter": 0}, [1, 1.5, 1.5]),
        ({"strategy": "linear", "base_ms": 1000, "jitter": 0}, [1, 2, 3]),
        ({"strategy": "constant", "base_ms": 1000, "jitter": 0}, [1, 1, 1]),
    ],
    ids=["exponential", "capped", "linear", "constant"],
)
def test_the_three_strategies(
    http: httpx.Client, namespace: str, retry: dict[str, object], delays: list[float]
) -> None:
    message_id = put(http, namespace, retry=retry)
    for delay in delays:
        (found,) = get(http, namespace)
        due = settle(http, "nack", found).json()["next_attempt_at"]
        nacked = events_of(http, message_id, namespace)[-1]
        assert seconds_between(nacked["at"], due) == pytest.approx(delay, abs=0.4)
        place = {"namespace": namespace, "topic": "t"}
        assert http.patch(f"/messages/{message_id}", json=place | {"delay_ms": 0}).status_code == 200


def test_jitter_shortens_the_delay_and_never_lengthens_it(http: httpx.Client, namespace: str) -> None:
    retry = {"strategy": "constant", "base_ms": 10_000, "jitter": 0.5}
    http.post("/enqueue", json=[{"namespace": namespace, "topic": "t", "body": 1, "retry": retry}] * 40)
    found = get(http, namespace, limit=40)
    answers = http.post("/nack", json=found).json()
    delays = []
    for message, answer in zip(found, answers, strict=True):
        nacked = events_of(http, message["id"], namespace)[-1]
        delays.append(seconds_between(nacked["at"], answer["next_attempt_at"]))
    assert 4 < min(delays) < max(delays) <= 10.01
    assert max(delays) - min(delays) > 1


def test_a_nack_may_name_its_own_delay(http: httpx.Client, namespace: str) -> None:
    message_id = put(http, namespace)
    (found,) = get(http, namespace)
    settle(http, "nack", found, delay_ms=0)
    (again,) = get(http, namespace)
    assert (again["id"], again["attempt"]) == (message_id, 2)


def test_used_up_attempts_end_in_the_dlq_with_the_last_error(http: httpx.Client, namespace: str) -> None:
    message_id = put(http, namespace, max_retries=1, body={"a": [1]}, headers={"h": "v"}, priority=7)
    for attempt, state in ((1, "retrying"), (2, "dead")):
        (found,) = get(http, namespace)
        assert found["attempt"] == attempt
        assert settle(http, "nack", found, error=f"no. {attempt}", delay_ms=0).json()["state"] == state
    (letter,) = dead_letters(http, namespace)
    assert letter.keys() == {
        "id", "namespace", "topic", "priority", "body", "headers", "attempts", "error", "reason", "enqueued_at",
        "died_at",
    }  # fmt: skip
    assert (letter["id"], letter["attempts"], letter["error"], letter["reason"]) == (
        message_id, 2, "no. 2", "max_retries",
    )  # fmt: skip
    assert (letter["body"], letter["headers"], letter["priority"]) == ({"a": [1]}, {"h": "v"}, 7)
    assert get(http, namespace) == []
    assert state_of(http, message_id, namespace) == "dead"


def test_no_retries_means_one_attempt(http: httpx.Client, namespace: str) -> None:
    put(http, namespace, max_retries=0)
    (found,) = get(http, namespace)
    assert (found["max_retries"], settle(http, "nack", found).json()["state"]) == (0, "dead")


def test_a_rejected_message_dies_at_once(http: httpx.Client, namespace: str) -> None:
    put(http, namespace)
    (found,) = get(http, namespace)
    assert settle(http, "nack", found, dead=True, error="bad\0input").json() == {"id": found["id"], "state": "dead"}
    (letter,) = dead_letters(http, namespace, topic="t")
    assert (letter["reason"], letter["attempts"], letter["error"]) == (
        "rejected",
        1,
        "bad\N{REPLACEMENT CHARACTER}input",
    )


def test_the_first_8_kib_of_an_error_are_kept(http: httpx.Client, namespace: str) -> None:
    put(http, namespace)
    (found,) = get(http, namespace)
    settle(http, "nack", found, dead=True, error="é" * 10_000)
    (letter,) = dead_letters(http, namespace)
    assert letter["error"] == "é" * 4096


def test_extend_moves_the_deadline_and_keeps_the_receipt(http: httpx.Client, namespace: str) -> None:
    message_id = put(http, namespace)
    (found,) = get(http, namespace, visibility_ms=1000)
    answer = settle(http, "extend", found, visibility_ms=60_000).json()
    assert answer["state"] == "extended"
    assert 58 < seconds_between(found["lease_expires_at"], answer["lease_expires_at"]) < 60
    time.sleep(1.6)
    assert get(http, namespace) == []
    assert settle(http, "ack", found).json() == {"id": message_id, "state": "acked"}


def test_extend_may_shorten_a_lease(http: httpx.Client, namespace: str) -> None:
    put(http, namespace)
    (found,) = get(http, namespace)
    settle(http, "extend", found, visibility_ms=1000)
    (again,) = get(http, namespace, wait_ms=5000)
    assert again["attempt"] == 2
    is_problem(settle(http, "extend", found), 409, "stale_receipt")


def test_release_gives_back_the_place_and_the_attempt(http: httpx.Client, namespace: str) -> None:
    first, second = put(http, namespace), put(http, namespace)
    (found,) = get(http, namespace)
    assert settle(http, "release", found).json() == {"id": first, "state": "released"}
    again = get(http, namespace, limit=2)
    assert [message["id"] for message in again] == [first, second]
    assert [message["attempt"] for message in again] == [1, 1]
    assert again[0]["receipt"] != found["receipt"]
    is_problem(settle(http, "ack", found), 409, "stale_receipt")


@pytest.mark.parametrize("verb", ["ack", "nack", "release"])
def test_a_verb_repeated_with_the_receipt_that_it_settled_answers_the_same(
    http: httpx.Client, namespace: str, verb: str
) -> None:
    put(http, namespace, retry={"base_ms": 60_000})
    (found,) = get(http, namespace)
    first = settle(http, verb, found)
    assert first.status_code == 200
    assert settle(http, verb, found).json() == first.json()
    assert http.post(f"/{verb}", json=[found]).json() == [first.json()]


def test_a_nack_that_killed_is_told_dead_again(http: httpx.Client, namespace: str) -> None:
    put(http, namespace, max_retries=0)
    (found,) = get(http, namespace)
    assert settle(http, "nack", found).json()["state"] == "dead"
    assert settle(http, "nack", found).json()["state"] == "dead"
    is_problem(settle(http, "ack", found), 409, "stale_receipt")


@pytest.mark.parametrize("verb", ["ack", "nack", "extend", "release"])
def test_without_a_receipt_the_current_lease_is_meant(http: httpx.Client, namespace: str, verb: str) -> None:
    message_id = put(http, namespace)
    place = {"id": message_id, "namespace": namespace, "topic": "t"}
    is_problem(http.post(f"/{verb}", json=place), 404, "not_leased")
    get(http, namespace)
    assert http.post(f"/{verb}", json=place).status_code == 200
    is_problem(http.post(f"/{verb}", json=place | {"id": 5}), 404, "not_leased")


@pytest.mark.parametrize("verb", ["ack", "nack", "extend", "release"])
def test_a_receipt_that_is_not_of_a_live_lease_is_stale(http: httpx.Client, namespace: str, verb: str) -> None:
    put(http, namespace)
    (found,) = get(http, namespace)
    settle(http, "nack", found, delay_ms=0)
    get(http, namespace)
    if verb != "nack":
        is_problem(settle(http, verb, found), 409, "stale_receipt")
    is_problem(settle(http, verb, found | {"receipt": "nonsense"}), 409, "stale_receipt")
    is_problem(settle(http, verb, found | {"receipt": ""}), 409, "stale_receipt")


def test_an_array_answers_each_in_order(http: httpx.Client, namespace: str) -> None:
    http.post("/enqueue", json=[{"namespace": namespace, "topic": "t", "body": n} for n in range(3)])
    found = get(http, namespace, limit=3)
    settle(http, "ack", found[1])
    answers = http.post("/nack", json=[*found, found[0] | {"id": 7}]).json()
    assert [answer.get("state", answer.get("code")) for answer in answers] == [
        "retrying", "stale_receipt", "retrying", "not_leased",
    ]  # fmt: skip
    assert [answer["id"] for answer in answers] == [found[0]["id"], found[1]["id"], found[2]["id"], 7]


def test_one_id_twice_in_an_array_is_settled_once(http: httpx.Client, namespace: str) -> None:
    message_id = put(http, namespace)
    (found,) = get(http, namespace)
    answers = http.post("/nack", json=[found | {"delay_ms": 60_000}, found]).json()
    assert [answer["state"] for answer in answers] == ["retrying", "retrying"]
    assert [event["event"] for event in events_of(http, message_id, namespace)].count("nacked") == 1


def test_a_lapsed_lease_is_due_again_at_its_deadline(http: httpx.Client, namespace: str) -> None:
    message_id = put(http, namespace, max_retries=1)
    (first,) = get(http, namespace, visibility_ms=1000)
    (second,) = get(http, namespace, wait_ms=5000, visibility_ms=1000)
    late = seconds_between(first["lease_expires_at"], second["lease_expires_at"]) - 1
    assert 0 <= late < 1
    while not dead_letters(http, namespace):
        time.sleep(0.05)
    (letter,) = dead_letters(http, namespace)
    assert (letter["error"], letter["reason"], letter["attempts"]) == ("lease expired", "max_retries", 2)
    assert [event["event"] for event in events_of(http, message_id, namespace)] == [
        "published", "delivered", "lapsed", "redelivered", "lapsed", "dead",
    ]  # fmt: skip


def test_what_expired_dies_and_a_running_lease_may_be_acked(http: httpx.Client, namespace: str) -> None:
    waits, held = put(http, namespace, "a", ttl_ms=300), put(http, namespace, "b", ttl_ms=300)
    (found,) = get(http, namespace, "b")
    time.sleep(0.4)
    assert get(http, namespace, "a") == []
    time.sleep(1.6)
    (letter,) = dead_letters(http, namespace)
    assert (letter["id"], letter["reason"]) == (waits, "expired")
    assert settle(http, "ack", found).json() == {"id": held, "state": "acked"}
