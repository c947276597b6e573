"""What a namespace uses: exact, once counted."""

import datetime
from collections.abc import Iterable

import httpx
import pytest

from tests.acceptance.calls import Json, die, get, is_problem, once, put, settle
from tests.service import Service

pytestmark = once
SOON_S = 240  # a transaction of another test, in whichever database, holds the count back


@pytest.fixture
def home(http: httpx.Client, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/"
    assert http.put(path, json={}).status_code == 201
    return path


def used(http: httpx.Client, home: str, **wanted: object) -> list[Json]:
    answer = http.get(home + "usage/", params=wanted)
    assert answer.status_code == 200, answer.text
    found: list[Json] = answer.json()["items"]
    return found


def test_a_day_adds_up_and_is_told_by_topic(service: Service, http: httpx.Client, home: str, namespace: str) -> None:
    put(http, namespace, "a", body="1234567890")
    put(http, namespace, "a", delay_ms=3_600_000)
    for verb in ("nack", "nack", "ack"):
        (held,) = get(http, namespace, "a", wait_ms=5_000)
        settle(http, verb, held, **({"delay_ms": 0} if verb == "nack" else {}))
    die(http, namespace, "b")
    http.put(home + "quotas/", json={"max_stored": 100})
    put(http, namespace, "b")
    get(http, namespace, "b")
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    whole = {"enqueued": 4, "delivered": 5, "acked": 1, "retried": 2, "dead": 1}
    service.until(lambda: _of(used(http, home), whole.keys()) == [whole], SOON_S, "all of it is counted")
    (day,) = used(http, home)
    assert (day["day"], day["topic"], day["enqueued_bytes"]) == (today, None, 12 + 1 + 1 + 1)
    a, b = used(http, home, by_topic=True)
    assert (a["topic"], a["enqueued"], a["retried"], a["acked"], a["dead"]) == ("a", 2, 2, 1, 0)
    assert (b["topic"], b["enqueued"], b["delivered"], b["dead"]) == ("b", 2, 2, 1)
    assert used(http, home, topic="b") == [b | {"topic": None}]
    first = http.get(home + "usage/", params={"by_topic": True, "limit": 1}).json()
    assert (first["items"], first["next"]) == ([a], f"{today}/a")
    assert used(http, home, by_topic=True, after=first["next"]) == [b]
    assert used(http, home, until="2020-01-31") == []
    now = http.get(home + "usage/").json()["now"]
    assert (now["stored"], now["in_flight"], now["dead"], now["quotas"]["max_stored"]) == (2, 1, 1, 100)
    is_problem(http.get(home + "usage/", params={"since": "yesterday"}), 400, "invalid")


def _of(days: list[Json], names: Iterable[str]) -> list[Json]:
    return [{name: day[name] for name in names} for day in days]
