"""What the pipeline has rolled up is answered by hour, day and topic; failures by their error, with what to do."""

import datetime
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest

from tests.acceptance.calls import Json, die, is_problem, once
from tests.rollups import add_failure, add_hour, tell_rolled_up
from tests.service import Service

pytestmark = once
NOON = datetime.datetime(2026, 3, 2, 12, tzinfo=datetime.UTC)
HOUR, DAY = datetime.timedelta(hours=1), datetime.timedelta(days=1)
SPAN = {"since": "2026-03-01T00:00:00Z", "until": "2026-03-03T00:00:00Z"}
DAYS = {"since": "2026-03-01", "until": "2026-03-02"}


@pytest.fixture
def control(service: Service) -> Iterator["psycopg.Connection[Any]"]:
    with psycopg.connect(service.env["CONTROL_DATABASE_URL"], autocommit=True) as connection:
        yield connection


def listed(http: httpx.Client, home: str, part: str, **wanted: object) -> list[Json]:
    answer = http.get(home + part, params=wanted)
    assert answer.status_code == 200, answer.text
    found: list[Json] = answer.json()["items"]
    return found


def test_hours_add_up_to_days_and_are_told_by_topic(
    control: Any, http: httpx.Client, home: str, namespace: str
) -> None:
    add_hour(control, namespace, "a", NOON, messages=5, bytes=50, deliveries=6, retries=1, acked=4, dead=1,
             wait_ms=[1, 2, 3], work_ms=[10, 20, 30], total_ms=[11, 22, 33])  # fmt: skip
    add_hour(control, namespace, "b", NOON, messages=7, bytes=70, wait_ms=[2, 2, 9])
    add_hour(control, namespace, "a", NOON + HOUR, messages=1)
    add_hour(control, namespace, "a", NOON - DAY, messages=2)
    add_hour(control, namespace, "a", NOON - 2 * DAY, messages=100)
    late, noon, before = listed(http, home, "usage/hours/", **SPAN)
    assert [hour["at"] for hour in (late, noon, before)] == [
        "2026-03-02T13:00:00Z", "2026-03-02T12:00:00Z", "2026-03-01T12:00:00Z",
    ]  # fmt: skip
    assert noon == {
        "at": "2026-03-02T12:00:00Z", "topic": None, "enqueued": 12, "enqueued_bytes": 120, "delivered": 6, "acked": 4,
        "retried": 1, "dead": 1,
        "wait_ms": {"p50": 2, "p95": 2, "p99": 9}, "work_ms": {"p50": 10, "p95": 20, "p99": 30},
        "total_ms": {"p50": 11, "p95": 22, "p99": 33},
    }  # fmt: skip
    assert (late["enqueued"], late["wait_ms"]) == (1, None)
    days = listed(http, home, "usage/hours/", by="day", **SPAN)
    assert [(day["at"][:10], day["enqueued"]) for day in days] == [("2026-03-02", 13), ("2026-03-01", 2)]
    assert [hour["enqueued"] for hour in listed(http, home, "usage/hours/", topic="b", **SPAN)] == [7]
    named = listed(http, home, "usage/hours/", by_topic=True, **SPAN)
    assert [(hour["at"][8:13], hour["topic"]) for hour in named] == [
        ("02T13", "a"), ("02T12", "a"), ("02T12", "b"), ("01T12", "a"),
    ]  # fmt: skip
    assert listed(http, home, "usage/hours/") == []  # of the last two days


@pytest.mark.parametrize("wanted", [{}, {"by": "day"}, {"by_topic": True}, {"by": "day", "by_topic": True}])
def test_pages_of_hours_leave_nothing_out(
    control: Any, http: httpx.Client, home: str, namespace: str, wanted: Json
) -> None:
    for hour in (NOON, NOON + HOUR, NOON - DAY):
        for topic in ("a", "B", "c-1", "c:2"):
            add_hour(control, namespace, topic, hour, messages=1)
    whole = listed(http, home, "usage/hours/", **SPAN, **wanted)
    paged, after = [], ""
    while after is not None:
        answer = http.get(home + "usage/hours/", params={**SPAN, **wanted, "limit": 1, "after": after}).json()
        paged += answer["items"]
        after = answer["next"]
    assert paged == whole
    assert sum(one["enqueued"] for one in whole) == 12


def test_failures_are_told_with_their_share_their_days_and_a_job_that_redrives_them(
    control: Any, http: httpx.Client, home: str, namespace: str
) -> None:
    die(http, namespace, "a")  # of "no such customer"
    print_, sample = "no such <text> for <n>", "no such 'customer' for 17"
    early = datetime.datetime(2026, 2, 1, tzinfo=datetime.UTC)
    add_failure(control, namespace, "a", early.date(), print_, 50, reason="rejected", first_at=early, last_at=early)
    add_failure(control, namespace, "a", (NOON - DAY).date(), print_, 2, reason="rejected", sample="no such 'x' for 1")
    add_failure(control, namespace, "a", NOON.date(), print_, 1, reason="rejected", sample=sample, sample_id=17)
    add_failure(control, namespace, "a", NOON.date(), "timeout", 1)
    add_failure(control, namespace, "b", NOON.date(), "", 9, reason="expired")
    worst, refused, slow = listed(http, home, "failures/", **DAYS)
    assert (worst["topic"], worst["deaths"], worst["share"]) == ("b", 9, 1)
    assert worst["redrive"] == {"waiting": 0, "advice": "none of the topic's dead letters is left", "job": None}
    assert (slow["error"], slow["share"]) == ("timeout", 0.25)
    assert (refused["error"], refused["deaths"], refused["share"]) == (print_, 3, 0.75)
    assert (refused["sample"], refused["sample_id"]) == (sample, 17)
    assert (refused["first_at"], refused["last_at"]) == ("2026-02-01T00:00:00Z", "2026-03-02T12:00:00Z")
    assert refused["days"] == [{"day": "2026-03-01", "deaths": 2}, {"day": "2026-03-02", "deaths": 1}]
    redrive = refused["redrive"]
    assert (redrive["waiting"], redrive["job"]["filter"]) == (
        1, {"topic": "a", "error": "no such", "reason": "rejected"},
    )  # fmt: skip
    assert "mend the producer" in redrive["advice"]
    job = http.post(home + "jobs/", json=redrive["job"] | {"dry_run": True})
    assert job.status_code == 201, job.text
    assert listed(http, home, "dlq/", **redrive["job"]["filter"]) != []
    assert [one["topic"] for one in listed(http, home, "failures/", topic="b", **DAYS)] == ["b"]
    assert listed(http, home, "failures/") == []  # of the last month


def test_pages_of_failures_leave_nothing_out(control: Any, http: httpx.Client, home: str, namespace: str) -> None:
    for n in range(7):
        add_failure(control, namespace, f"t{n % 3}", NOON.date(), f"error {n}", 1 + n // 4)
    whole = listed(http, home, "failures/", **DAYS)
    assert [one["deaths"] for one in whole] == [2, 2, 2, 1, 1, 1, 1]
    paged, after = [], ""
    while after is not None:
        answer = http.get(home + "failures/", params={**DAYS, "limit": 2, "after": after}).json()
        paged += answer["items"]
        after = answer["next"]
    assert paged == whole


@pytest.mark.parametrize("part", ["usage/hours/", "failures/"])
def test_where_nothing_is_rolled_up_the_answer_says_why(control: Any, http: httpx.Client, home: str, part: str) -> None:
    control.execute("DELETE FROM usage_rolled_up")
    answer = http.get(home + part)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "items": [], "next": None, "rolled_up_at": None,
        "hint": "Nothing is rolled up: no lake is configured (LAKE_URL).",
    }  # fmt: skip
    tell_rolled_up(control)
    told = http.get(home + part).json()
    assert told["hint"] is None
    assert told["rolled_up_at"].endswith("Z")
    control.execute("DELETE FROM usage_rolled_up")


def test_only_its_own_namespace_is_told(control: Any, http: httpx.Client, home: str, namespace: str) -> None:
    add_hour(control, f"{namespace}-x", "a", NOON, messages=1)
    add_failure(control, f"{namespace}-x", "a", NOON.date(), "timeout", 1)
    assert listed(http, home, "usage/hours/", **SPAN) == []
    assert listed(http, home, "failures/", **DAYS) == []
    for part in ("usage/hours/", "failures/"):
        is_problem(http.get(f"/api/v1/namespaces/{namespace}-x/{part}"), 404, "namespace_not_found")
        is_problem(http.get(home + part, params={"since": "yesterday"}), 400, "invalid")


def test_scopes_are_those_of_usage_and_of_dead_letters(service: Service, home: str, namespace: str) -> None:
    for scope, hours, failures in (("admin", 200, 200), ("dlq", 403, 200), ("dequeue", 403, 403)):
        with service.client(namespaces=[namespace], scopes=[scope]) as client:
            assert client.get(home + "usage/hours/").status_code == hours
            assert client.get(home + "failures/").status_code == failures


@pytest.mark.parametrize("part", ["usage/", "failures/"])
def test_the_admin_says_why_it_shows_nothing(
    control: Any, browser: httpx.Client, home: str, namespace: str, part: str
) -> None:
    control.execute("DELETE FROM usage_rolled_up")
    page = browser.get(f"/admin/messages/{namespace}/{part}", params={"topic": "a b", "days": "x", "after": "no"})
    assert page.status_code == 200
    assert "no lake is configured" in page.text
    tell_rolled_up(control)
    page = browser.get(f"/admin/messages/{namespace}/{part}")
    assert "no lake is configured" not in page.text
    assert "in these" in page.text
    control.execute("DELETE FROM usage_rolled_up")
