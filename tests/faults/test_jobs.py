"""A job whose worker is killed goes on in the next one, and each message is replayed once and counted once."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.calls import depth, get
from tests.service import Service

pytestmark = pytest.mark.fault
LETTERS = 3_000


@pytest.fixture
def service(folder: Path) -> Iterator[Service]:
    service = Service(folder / "data")
    service.start()
    yield service
    service.end()


def test_a_killed_worker_costs_nothing_and_repeats_nothing(service: Service) -> None:
    with service.client() as http:
        for start in range(0, LETTERS, 1000):
            batch = [{"namespace": "n", "topic": "t", "body": start + n} for n in range(1000)]
            assert http.post("/enqueue", json=batch).status_code == 200
            held = get(http, "n", limit=1000)
            http.post("/nack", json=[one | {"dead": True} for one in held])
        jobs = "/api/v1/namespaces/n/jobs/"
        job = http.post(jobs, json={"kind": "replay", "filter": {}, "rate_per_s": 400}).json()

        def done() -> int:
            return int(http.get(f"{jobs}{job['id']}/").json()["done"])

        for least in (1, 1200):
            service.until(lambda least=least: done() >= least, 60, "it is at work")  # type: ignore[misc]
            killed = service.pid_of("celery")
            os.killpg(killed, signal.SIGKILL)
            service.until(lambda killed=killed: service.pid_of("celery") != killed, 30, "another is there")  # type: ignore[misc]
        service.until(lambda: http.get(f"{jobs}{job['id']}/").json()["state"] == "done", 90, "it is done")
        found = http.get(f"{jobs}{job['id']}/").json()
        assert (found["matched"], found["done"], found["progress"]) == (LETTERS, LETTERS, 1.0)
        assert depth(http, "n") == {"ready": LETTERS, "scheduled": 0, "leased": 0, "dead": 0}
        event = http.get(f"/messages/{held[0]['id']}/trace", params={"namespace": "n", "topic": "t"}).json()["events"]
        assert [one["event"] for one in event].count("replayed") == 1
