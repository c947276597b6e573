"""Searches, jobs and purges of the control plane, over HTTP against real processes."""

import time
from typing import Any

import httpx
import pytest

from tests.acceptance.calls import Json, depth, die, get, is_problem, once, put, state_of
from tests.service import Service

pytestmark = once


@pytest.fixture
def home(http: httpx.Client, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/"
    assert http.put(path, json={}).status_code == 201
    return path


def search(http: httpx.Client, home: str, **wanted: Any) -> list[int]:
    found, after = [], ""
    while after is not None:
        answer = http.get(home + "dlq/", params=wanted | {"after": after})
        assert answer.status_code == 200, answer.text
        found += [one["id"] for one in answer.json()["items"]]
        after = answer.json()["next"]
    return found


def over(service: Service, http: httpx.Client, home: str, job: Json) -> Json:
    """The job, when it is."""

    def is_over() -> bool:
        return http.get(f"{home}jobs/{job['id']}/").json()["state"] not in ("queued", "running")

    service.until(is_over, 30, "the job is over")
    found: Json = http.get(f"{home}jobs/{job['id']}/").json()
    return found


def run(service: Service, http: httpx.Client, home: str, **wanted: Any) -> Json:
    made = http.post(home + "jobs/", json=wanted)
    assert made.status_code == 201, made.text
    assert made.json()["state"] == "queued"
    return over(service, http, home, made.json())


def test_dead_letters_are_searched_the_latest_first(http: httpx.Client, home: str, namespace: str) -> None:
    dead = [die(http, namespace, f"t{n % 3}", body={"customer": n}) for n in range(6)]
    assert search(http, home) == search(http, home, limit=2) == dead[::-1]
    assert search(http, home, text='"CUSTOMER":4') == [dead[4]]
    assert search(http, home, error="no such") == dead[::-1]
    assert search(http, home, topic="t1") == [dead[4], dead[1]]
    assert search(http, home, id=dead[2]) == [dead[2]]
    assert search(http, home, reason="expired") == search(http, home, min_attempts=2) == []
    (one,) = http.get(home + "dlq/", params={"limit": 1}).json()["items"]
    assert (one["body"], one["error"], one["reason"]) == ({"customer": 5}, "no such customer", "rejected")
    assert search(http, home, since=one["died_at"]) == [dead[5]]
    assert search(http, home, until=one["died_at"]) == dead[4::-1]
    for wrong in ({"reason": "x"}, {"since": "now"}, {"after": "x"}, {"text": ""}, {"id": "-1"}, {"text": "\0"}):
        is_problem(http.get(home + "dlq/", params=wrong), 400, "invalid")


def test_a_replay_by_filter(service: Service, http: httpx.Client, home: str, namespace: str) -> None:
    dead = [die(http, namespace, body={"n": n}) for n in range(5)]
    counted = run(service, http, home, kind="replay", filter={"text": '"n":3'}, dry_run=True)
    assert (counted["state"], counted["matched"], counted["done"], counted["progress"]) == ("done", 1, 0, 1.0)
    assert state_of(http, dead[3], namespace) == "dead"
    done = run(service, http, home, kind="replay", filter={"text": '"n":3'})
    assert (done["state"], done["matched"], done["done"], done["created_by"]) == ("done", 1, 1, "tester")
    assert state_of(http, dead[3], namespace) == "ready"
    assert search(http, home) == [dead[4], dead[2], dead[1], dead[0]]
    assert get(http, namespace)[0]["id"] == dead[3]
    gone = run(service, http, home, kind="delete", filter={})
    assert gone["done"] == 4
    assert depth(http, namespace)["dead"] == 0
    acts = [(one["action"], one["target"]) for one in http.get(home + "audit/").json()["items"]]
    assert acts[:3] == [
        ("job.delete", str(gone["id"])),
        ("job.replay", str(done["id"])),
        ("job.replay", str(counted["id"])),
    ]
    listed = http.get(home + "jobs/").json()["items"]
    assert [one["id"] for one in listed] == [gone["id"], done["id"], counted["id"]]
    assert [one["id"] for one in http.get(home + "jobs/", params={"kind": "delete"}).json()["items"]] == [gone["id"]]
    assert http.get(home + "jobs/", params={"state": "failed"}).json() == {"items": [], "next": None}


def test_a_job_is_cancelled_where_it_is(service: Service, http: httpx.Client, home: str, namespace: str) -> None:
    for _ in range(6):
        die(http, namespace)
    job = http.post(home + "jobs/", json={"kind": "delete", "filter": {}, "rate_per_s": 1}).json()
    path = f"{home}jobs/{job['id']}/"
    service.until(lambda: http.get(path).json()["done"] >= 1, 15, "it has begun")
    assert http.get(path).json()["state"] == "running"
    cancelled = http.delete(path)
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    assert http.delete(path).json()["state"] == "cancelled"
    time.sleep(2.5)  # longer than a portion takes at this rate
    assert http.get(path).json()["done"] == 6 - depth(http, namespace)["dead"] < 6
    assert [one["action"] for one in http.get(home + "audit/").json()["items"]][:2] == ["job.cancel", "job.delete"]
    done = run(service, http, home, kind="delete", filter={})
    is_problem(http.delete(f"{home}jobs/{done['id']}/"), 409, "conflict")
    is_problem(http.delete(f"{home}jobs/999999999/"), 404, "not_found")
    is_problem(http.get(f"{home}jobs/x/"), 404, "not_found")


def test_a_purge_is_a_job(service: Service, http: httpx.Client, home: str, namespace: str) -> None:
    die(http, namespace)
    put(http, namespace, delay_ms=3_600_000)
    put(http, namespace)
    put(http, namespace, priority=1)
    held = get(http, namespace)[0]
    path = home + "topics/t/purge/"
    counted = over(service, http, home, http.post(path, json={"dry_run": True}).json())
    assert (counted["kind"], counted["topic"], counted["matched"], counted["done"]) == ("purge", "t", 2, 0)
    made = http.post(path)
    assert made.status_code == 201
    assert over(service, http, home, made.json())["done"] == 2
    assert depth(http, namespace) == {"ready": 0, "scheduled": 0, "leased": 1, "dead": 1}
    assert over(service, http, home, http.post(path, json={"dead": True}).json())["done"] == 1
    assert depth(http, namespace)["dead"] == 0
    assert state_of(http, held["id"], namespace) == "leased"
    is_problem(http.post(home + "topics/never/purge/"), 404, "not_found")
    is_problem(http.post(path, json={"rate_per_s": 0}), 400, "invalid")


def test_every_wrong_field_of_a_job_is_named(http: httpx.Client, home: str) -> None:
    slip = is_problem(
        http.post(home + "jobs/", json={"kind": "delete", "filter": {"reson": "expired"}}), 400, "invalid"
    )
    assert [(one["field"], "reson" in one["detail"]) for one in slip["errors"]] == [("filter", True)]
    wrong = {"kind": "burn", "filter": {"reason": "x"}, "rate_per_s": 0, "max": "1"}
    problem = is_problem(http.post(home + "jobs/", json=wrong), 400, "invalid")
    assert {one["field"] for one in problem["errors"]} == {"kind", "filter.reason", "rate_per_s", "max"}
    is_problem(http.post(home + "jobs/", json={"kind": "delete"}), 400, "invalid")  # all of them has to be said
    assert http.get(home + "jobs/").json()["items"] == []


def test_the_scope_dlq_is_enough_for_dead_letters_and_no_more(service: Service, home: str, namespace: str) -> None:
    with service.client(namespaces=[namespace], scopes=["dlq"]) as worker:
        assert worker.get(home + "dlq/").status_code == 200
        made = worker.post(home + "jobs/", json={"kind": "delete", "filter": {}, "dry_run": True})
        assert made.status_code == 201
        assert worker.get(f"{home}jobs/{made.json()['id']}/").status_code == 200
        for path in ("", "topics/", "usage/", "audit/"):
            is_problem(worker.get(home + path), 403, "forbidden")
        is_problem(worker.post(home + "topics/t/purge/"), 403, "forbidden")
    with service.client(namespaces=[namespace], scopes=["enqueue", "dequeue"]) as worker:
        for path in ("dlq/", "jobs/"):
            is_problem(worker.get(home + path), 403, "forbidden")
        is_problem(worker.post(home + "jobs/", json={"kind": "delete", "filter": {}}), 403, "forbidden")
