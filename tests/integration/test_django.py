"""The data plane through Django alone: its test client, which is its WSGI handler, in this process and in others."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from mqueue.api.bridge import bridge
from mqueue.api.fastlane import FastLane
from mqueue.core import tokens
from mqueue.core.conf import ROOT, Conf
from mqueue.core.messages import MAX_REQUEST

JSON = "application/json"


@pytest.fixture
def django(configuration: Conf) -> Iterator[Client]:
    token = tokens.make(configuration.jwt_secret, "tester", ["*"], ["*"], 600)
    yield Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {token}"})
    bridge().close()


def put(django: Client, namespace: str, **fields: Any) -> Any:
    one = {"namespace": namespace, "topic": "t", "body": 1} | fields
    return django.post("/enqueue", json.dumps(one), content_type=JSON)


def test_a_message_goes_in_and_out(django: Client, namespace: str) -> None:
    (message_id,) = put(django, namespace, body={"n": 1.10}).json()
    answer = django.get("/dequeue", {"namespace": namespace, "topic": "t"})
    assert b'"body":{"n": 1.1}' in answer.content  # to the byte, as it was sent
    assert answer["Cache-Control"] == "no-store"
    acked = django.post("/ack", answer.content, content_type=JSON)
    assert acked.json() == [{"id": message_id, "state": "acked"}]
    assert django.get(f"/messages/{message_id}", {"namespace": namespace, "topic": "t"}).json()["state"] == "acked"


def test_many_threads_share_one_engine(django: Client, namespace: str) -> None:
    ids: list[int] = []

    def work() -> None:
        for _ in range(10):
            ids.extend(put(django, namespace).json())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 80
    assert sum(thread.name == "data plane" for thread in threading.enumerate()) == 1


def test_djangos_own_limit_of_a_body_is_not_ours(django: Client, namespace: str) -> None:
    batch = [{"namespace": namespace, "topic": "t", "body": "x" * 250_000}] * 20
    assert django.post("/enqueue", json.dumps(batch), content_type=JSON).status_code == 200
    answer = django.post("/enqueue", b" " * (MAX_REQUEST + 1), content_type=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_no_answer_depends_on_what_is_accepted(django: Client, namespace: str) -> None:
    place = {"namespace": namespace, "topic": "t"}
    for more in ({"Accept": "text/html"}, {"Accept": "image/png"}):
        assert django.get("/dequeue", place, headers=more).json() == []
    assert django.get("/dequeue", place | {"format": "xml"}).json() == []


def test_an_error_of_ours_is_a_problem_and_tells_nothing(
    django: Client, namespace: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put(django, namespace)

    async def fail(*_: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr("mqueue.api.health.Health.answer", fail)
    answer = django.get("/health")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert b"secret" not in answer.content
    assert "a secret" in caplog.text


def dequeues() -> bool:
    """Whether one is under way: not only the look at its token, which comes before."""
    return any("dequeue" in repr(task) for task in tuple(bridge()._tasks))


def test_whoever_waits_when_it_closes_is_told_so(django: Client, namespace: str) -> None:
    put(django, namespace, topic="other")
    answers: list[Any] = []
    place = {"namespace": namespace, "topic": "t", "wait_ms": 20_000}
    waiting = threading.Thread(target=lambda: answers.append(django.get("/dequeue", place)))
    waiting.start()
    while not dequeues():
        time.sleep(0.01)
    bridge().close()
    waiting.join(5)
    assert [(answer.status_code, answer["Retry-After"]) for answer in answers] == [(503, "1")]
    assert put(django, namespace).status_code == 200  # and it opens again


@pytest.fixture
def database(django_db_blocker: Any) -> Iterator[None]:
    with django_db_blocker.unblock():
        yield
    connections["default"].close_pool()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("database")
async def test_beside_the_fast_lane_there_is_no_second_plane(configuration: Conf) -> None:
    lane = FastLane(configuration)
    await lane.open()
    bridge().lend(lane.plane)
    try:
        token = tokens.make(configuration.jwt_secret, "tester", ["*"], ["*"], 600)
        asking = Client(headers={"Authorization": f"Bearer {token}"}).get
        answers = await asyncio.gather(*(asyncio.to_thread(asking, "/api/v1/namespaces/") for _ in range(3)))
        assert [answer.status_code for answer in answers] == [200] * 3
        assert not any(thread.name == "data plane" for thread in threading.enumerate())
        waiting = asyncio.create_task(asyncio.to_thread(asking, "/dequeue?namespace=n&topic=t&wait_ms=20000"))
        while not dequeues():
            await asyncio.sleep(0.01)
    finally:
        await bridge().take_back()
        await lane.close()
    assert (await waiting).status_code == 503


SCRIPT = """
import os, django
django.setup()
from django.test import Client
from mqueue.api.bridge import bridge

def is_ready():
    return Client().get("/ready").status_code

print(is_ready(), flush=True)
first = bridge()
child = os.fork()
if not child:
    print(is_ready(), bridge() is not first, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(is_ready(), bridge() is first, flush=True)
"""


def test_a_forked_process_starts_an_engine_of_its_own_and_all_of_them_end() -> None:
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", SCRIPT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert done.stdout.split() == ["200", "200", "True", "200", "True"], done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
