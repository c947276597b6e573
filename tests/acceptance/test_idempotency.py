"""Idempotency keys, over HTTP against real processes."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from shards.routing import slot_of
from tests.acceptance.calls import get, is_problem, put, settle
from tests.service import Service


def test_a_repeated_key_gets_the_first_id_and_adds_nothing(http: httpx.Client, namespace: str) -> None:
    one = {"namespace": namespace, "topic": "t", "body": "first", "idempotency_key": "k"}
    first = http.post("/enqueue", json=one)
    assert first.headers["mqueue-duplicates"] == "0"
    again = http.post("/enqueue", json=one | {"body": "second", "topic": "u"})
    assert (again.status_code, again.json(), again.headers["mqueue-duplicates"]) == (200, first.json(), "1")
    topics = http.get(f"/api/v1/namespaces/{namespace}/topics/").json()["items"]
    assert [one["name"] for one in topics] == ["t"]
    (found,) = get(http, namespace)
    assert found["body"] == "first"
    assert get(http, namespace, "u") == []
    settle(http, "ack", found)
    assert http.post("/enqueue", json=one).json() == first.json()
    assert get(http, namespace) == []


def test_keys_belong_to_a_namespace(http: httpx.Client, namespace: str) -> None:
    assert put(http, namespace, idempotency_key="k") != put(http, f"{namespace}-2", idempotency_key="k")


def test_a_key_twice_in_one_request_is_one_message(http: httpx.Client, namespace: str) -> None:
    one = {"namespace": namespace, "topic": "t", "body": 1, "idempotency_key": "k"}
    answer = http.post("/enqueue", json=[one, {"namespace": namespace, "topic": "t", "body": 2}, one | {"topic": "u"}])
    first, second, third = answer.json()
    assert first == third != second
    assert answer.headers["mqueue-duplicates"] == "1"
    assert [found["body"] for found in get(http, namespace, limit=10)] == [1, 2]


def test_a_request_with_keys_keeps_its_order(http: httpx.Client, namespace: str) -> None:
    messages = [
        {"namespace": namespace, "topic": "t", "body": n} | ({"idempotency_key": str(n)} if n % 2 else {})
        for n in range(40)
    ]
    http.post("/enqueue", json=messages)
    assert [found["body"] for found in get(http, namespace, limit=100)] == list(range(40))


@pytest.mark.parametrize("shards", [1, 2], ids=["one topic", "topics on both shards"])
def test_racing_requests_yield_one_message_a_key(service: Service, namespace: str, shards: int) -> None:
    on_first, on_second = (
        [name for n in range(100) if slot_of(namespace, name := f"t{n}") // 512 == shard][:3] for shard in (0, 1)
    )
    topics = on_first[:1] if shards == 1 else on_first + on_second

    def send(n: int) -> list[int]:
        with service.client() as http:
            keys = [f"key-{(n * 7 + k) % 20}" for k in range(20)]
            batch = [
                {"namespace": namespace, "topic": topics[(n + k) % len(topics)], "body": 1, "idempotency_key": key}
                for k, key in enumerate(keys)
            ]
            answer = http.post("/enqueue", json=batch)
            assert answer.status_code == 200, answer.text
            ids = dict(zip(keys, answer.json(), strict=True))
            return [ids[f"key-{k}"] for k in range(20)] + [int(answer.headers["mqueue-duplicates"])]

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(send, range(24)))
    assert len({tuple(answer[:20]) for answer in answers}) == 1
    assert sum(answer[20] for answer in answers) == 24 * 20 - 20
    with service.client() as http:
        found = [message["id"] for topic in topics for message in get(http, namespace, topic, limit=100)]
    assert sorted(found) == sorted(answers[0][:20])


def test_a_message_is_found_by_its_key(http: httpx.Client, namespace: str) -> None:
    message_id = put(http, namespace, idempotency_key="order/7 ü")
    query = {"namespace": namespace, "topic": "t", "idempotency_key": "order/7 ü"}
    (found,) = http.get("/messages", params=query).json()
    assert (found["id"], found["idempotency_key"], found["state"]) == (message_id, "order/7 ü", "ready")
    assert http.get("/messages", params=query | {"idempotency_key": "other"}).json() == []
    assert http.get("/messages", params=query | {"topic": "u"}).json() == []


@pytest.mark.parametrize("key", ["", "k" * 256, "a\0b", 7])
def test_what_is_no_key_is_refused(http: httpx.Client, namespace: str, key: object) -> None:
    answer = http.post("/enqueue", json={"namespace": namespace, "topic": "t", "body": 1, "idempotency_key": key})
    assert is_problem(answer, 400, "invalid")["errors"][0]["field"] == "idempotency_key"
