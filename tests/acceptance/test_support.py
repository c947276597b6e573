"""The admin's pages on messages over HTTP: what a role shows and allows, and that each act is on record once."""

import re
import time
from typing import Any
from urllib.parse import quote

import httpx
import psycopg
import pytest

from mqueue.api.support.urls import PAGES
from shards.routing import slot_of
from tests.acceptance.calls import Json, depth, die, get, once, put, settle, state_of
from tests.acceptance.people import session
from tests.letters import bury
from tests.service import Service

pytestmark = once
QUICK_S = 3.0


def audit_of(http: httpx.Client, home: str) -> list[Json]:
    found: list[Json] = http.get(home + "audit/").json()["items"]
    return found


def post(browser: httpx.Client, path: str, **fields: Any) -> httpx.Response:
    return browser.post(path, data={"csrfmiddlewaretoken": browser.cookies["csrftoken"]} | fields)


def test_topics_show_what_waits_and_are_paused_and_resumed(
    browser: httpx.Client, http: httpx.Client, home: str, namespace: str
) -> None:
    for _ in range(3):
        put(http, namespace)
    put(http, namespace, delay_ms=3_600_000)
    get(http, namespace)
    at = f"/admin/messages/{namespace}/"
    page = browser.get(at).text
    numbers = re.findall(r'<td class="mq-n">\s*([^<\s]+)', page)
    assert [numbers[n] for n in (0, 2, 3, 4)] == ["2", "1", "1", "0"]
    assert re.fullmatch(r"\d+", numbers[1])  # seconds
    count = len(audit_of(http, home))
    assert "paused" in post(browser, f"{at}topics/t/pause/", paused="yes").text
    assert http.get(home + "topics/t/").json()["paused"] is True
    assert "Resume" in browser.get(at).text
    assert "resumed" in post(browser, f"{at}topics/t/pause/").text
    assert http.get(home + "topics/t/").json()["paused"] is False
    post(browser, f"{at}topics/t/pause/")  # it was not
    assert [one["action"] for one in audit_of(http, home)][:-count] == ["topic.change"] * 2


def test_a_letter_is_requeued_and_deleted_after_a_second_question(
    browser: httpx.Client, http: httpx.Client, home: str, namespace: str, root: tuple[str, str]
) -> None:
    first, second, third = (die(http, namespace, body={"n": n}, headers={"h": "v"}) for n in range(3))
    at = f"/admin/messages/{namespace}/dlq/"
    page = browser.get(f"{at}{first}/").text
    assert "&quot;n&quot;: 0" in page
    assert "no such customer" in page
    assert "published" in page
    raw = browser.get(f"{at}{first}/payload/")
    assert (raw.content, raw.headers["content-type"]) == (b'{"n":0}', "application/octet-stream")
    assert "sandbox" in raw.headers["content-security-policy"]
    chosen = {"chosen": [f"{first}:t"], "verb": "replay"}
    assert "due at once" in post(browser, f"{at}act/", **chosen).text
    assert state_of(http, first, namespace) == "dead"
    assert "1 dead letters requeued" in post(browser, f"{at}act/", **chosen, confirmed="yes").text
    assert state_of(http, first, namespace) == "ready"
    both = {"chosen": [f"{second}:t", f"{third}:t"], "verb": "delete", "confirmed": "yes"}
    assert "2 dead letters deleted" in post(browser, f"{at}act/", **both).text
    assert depth(http, namespace) == {"ready": 1, "scheduled": 0, "leased": 0, "dead": 0}
    deleted, replayed = audit_of(http, home)[:2]
    assert (replayed["action"], replayed["target"], replayed["actor"]) == ("dead.replay", str(first), root[0])
    assert (deleted["action"], deleted["after"]) == ("dead.delete", {"chosen": {"t": [second, third]}, "done": 2})
    assert browser.get(f"{at}{second}/").status_code == 404
    for wrong in ({"chosen": ["x"]}, {"chosen": []}, {"chosen": [f"{first}:t"], "verb": "burn"}):
        assert post(browser, f"{at}act/", **{"verb": "delete"} | wrong).status_code == 400


ODD = {
    "a digit to Unicode alone": "²",
    "in another script": "٣",
    "far too many digits": "9" * 5000,
    "zeros before a large one": "0" * 17 + "1" + "9" * 20,
    "more than a bigint": "9" * 19,
    "a sign": "-1",
    "a line break": "1\n",
}


@pytest.mark.parametrize("number", ODD.values(), ids=ODD)
def test_an_odd_number_is_no_number(browser: httpx.Client, home: str, namespace: str, number: str) -> None:
    at = f"/admin/messages/{namespace}/"
    for path in (f"dlq/{quote(number)}/", f"dlq/{quote(number)}/payload/", f"jobs/{quote(number)}/"):
        assert browser.get(at + path).status_code == 404, path
    assert browser.get(f"{at}jobs/", params={"after": number}).status_code == 200
    assert browser.get(f"{at}failures/", params={"after": f"{number}-{'a' * 16}"}).status_code == 200
    for place in (f"{number}-1", f"1-{number}"):
        assert browser.get(f"{at}dlq/", params={"after": place}).status_code == 200
    for field in ("id", "min_attempts"):
        asked = browser.get(f"{at}dlq/", params={field: number})
        assert asked.status_code == (200 if number.strip() == "1" else 400)
    assert post(browser, f"{at}dlq/act/", verb="delete", chosen=[f"{number}:t"]).status_code == 400
    if number.strip() != "1":
        for field in ("rate_per_s", "max"):
            assert post(browser, f"{at}dlq/all/", verb="delete", **{field: number}).status_code == 400


def test_all_that_fit_are_acted_on_by_a_job(
    service: Service, browser: httpx.Client, http: httpx.Client, home: str, namespace: str
) -> None:
    for n in range(4):
        die(http, namespace, body={"n": n % 2})
    at = f"/admin/messages/{namespace}/dlq/all/"
    asked = browser.get(at, params={"verb": "replay", "text": '"n":1'})
    assert re.search(r'id="matching">\s*2<', asked.text)
    job = post(browser, at, verb="replay", text='"n":1')
    assert re.fullmatch(rf"/admin/messages/{namespace}/jobs/\d+/", job.url.path)
    service.until(lambda: depth(http, namespace)["ready"] == 2, 15, "they live again")
    service.until(lambda: "done" in browser.get(job.url.path).text, 5, "it says so")
    assert audit_of(http, home)[0]["action"] == "job.replay"
    slow = post(browser, at, verb="delete", rate_per_s="1")
    assert "Cancel the job" in slow.text
    assert "cancelled" in post(browser, slow.url.path).text
    assert audit_of(http, home)[0]["action"] == "job.cancel"
    assert browser.get(at, params={"verb": "burn"}).status_code == 400
    assert post(browser, at, verb="delete", rate_per_s="0").status_code == 400
    assert post(browser, at, verb="delete", reason="x").status_code == 400


def test_a_topic_is_purged(
    service: Service, browser: httpx.Client, http: httpx.Client, home: str, namespace: str
) -> None:
    die(http, namespace)
    put(http, namespace)
    put(http, namespace, delay_ms=3_600_000)
    at = f"/admin/messages/{namespace}/topics/t/purge/"
    asked = browser.get(at)
    assert "2 messages now" in asked.text
    assert "Delete its 1 dead letters" in asked.text
    post(browser, at, dead="on")
    nothing = {"ready": 0, "scheduled": 0, "leased": 0, "dead": 0}
    service.until(lambda: depth(http, namespace) == nothing, 15, "nothing waits")
    assert audit_of(http, home)[0]["action"] == "job.purge"
    assert browser.get(at.replace("/t/", "/never/")).status_code == 404


def test_bytes_and_long_errors_are_shown(browser: httpx.Client, http: httpx.Client, namespace: str) -> None:
    http.post("/enqueue", json={"namespace": namespace, "topic": "t", "payload": "AP8BAg=="})
    (held,) = get(http, namespace)
    settle(http, "nack", held, error="x" * 5000, dead=True)
    at = f"/admin/messages/{namespace}/dlq/"
    assert "00 ff 01 02" in browser.get(f"{at}{held['id']}/").text
    assert "x" * 5000 in browser.get(f"{at}{held['id']}/").text
    listed = browser.get(at).text
    assert "x" * 200 + "…" in listed
    assert "x" * 201 not in listed


def test_pages_stay_quick_with_many_letters(
    service: Service, browser: httpx.Client, http: httpx.Client, namespace: str
) -> None:
    put(http, namespace)
    with psycopg.connect(service.env["CONTROL_DATABASE_URL"]) as control:
        row = control.execute(
            "SELECT t.id FROM topic t JOIN namespace n ON n.id = t.namespace_id WHERE n.name = %s", [namespace]
        ).fetchone()
    assert row
    slot = slot_of(namespace, "t")
    urls = service.env["DATABASE_URLS"].split(",")
    with psycopg.connect(urls[slot * len(urls) // 1024], autocommit=True) as shard:
        bury(shard, row[0], slot, 60_000, error="boom")
        bury(shard, row[0], slot, 1, first=1 << 29, body={"needle": 1})
    at = f"/admin/messages/{namespace}/dlq/"
    for asked in ({}, {"error": "boom"}, {"text": "needle"}, {"reason": "expired"}, {"text": "nowhere"}):
        began = time.monotonic()
        page = browser.get(at, params=asked)
        assert page.status_code == 200
        assert time.monotonic() - began < 2 * QUICK_S, asked
    assert "1,000+ dead letters" in browser.get(at).text
    page = browser.get(at, params={"text": "needle"}).text
    while not (found := re.findall(r"/dlq/(\d+)/", page)):  # a busy machine does not get there in one search
        page = browser.get(f"{at}?{below(page)}").text
    assert len(set(found)) == 1
    second = browser.get(f"{at}?{below(browser.get(at).text)}").text
    assert "Newest" in second
    assert not set(re.findall(r"/dlq/(\d+)/", browser.get(at).text)) & set(re.findall(r"/dlq/(\d+)/", second))


def below(page: str) -> str:
    """The query of the page that follows."""
    return re.findall(r'href="\?([^"]*)" rel="next"', page)[0].replace("&amp;", "&")


ROLES: dict[str | None, set[str]] = {
    None: set(),
    "viewer": {"look"},
    "operator": {"look", "act"},
    "admin": {"look", "act"},
}


@pytest.mark.parametrize("role", ROLES)
def test_staff_see_and_do_what_their_role_allows(
    service: Service, http: httpx.Client, home: str, namespace: str, staff: tuple[str, str], role: str | None
) -> None:
    dead = die(http, namespace)
    job = http.post(home + "jobs/", json={"kind": "delete", "filter": {"topic": "none"}}).json()["id"]
    if role:
        http.put(home + f"members/{staff[0]}/", json={"role": role})
    count = len(audit_of(http, home))
    with session(service, *staff) as person:
        for name, (at, page) in PAGES.items():
            if "namespace" not in at:
                continue
            number = dead if name in ("letter", "payload") else job
            path = "/admin/" + at.replace("<str:namespace>", namespace).replace("<str:topic>", "t")
            path = path.replace("<str:number>", str(number))
            for method, needed in page.roles.items():
                allowed = ("look" if needed == "viewer" else "act") in ROLES[role]
                if method == "GET":
                    answer = person.get(path, params={"verb": "replay"})
                else:
                    answer = post(person, path, verb="replay", chosen=[f"{dead}:t"])
                refused = answer.status_code == 403
                assert refused is not allowed, (name, method, answer.status_code)
                if not allowed:
                    missing = path.replace(namespace, namespace[:-1])
                    other = person.get(missing) if method == "GET" else post(person, missing, verb="replay")
                    assert other.status_code == 403
        listed = person.get("/admin/messages/", params={"prefix": namespace}).text
        assert (f"/admin/messages/{namespace}/" in listed) is bool(role)
        if role == "viewer":
            assert "Requeue" not in person.get(f"/admin/messages/{namespace}/dlq/").text
    if not ROLES[role] & {"act"}:
        assert len(audit_of(http, home)) - count in (0, int(bool(role)))
    with httpx.Client(base_url=service.url) as nobody:
        assert nobody.get(f"/admin/messages/{namespace}/").headers["location"].startswith("/admin/login/")


def test_a_form_without_its_token_does_nothing(browser: httpx.Client, http: httpx.Client, namespace: str) -> None:
    dead = die(http, namespace)
    del browser.headers["X-CSRFToken"]
    fields = {"chosen": [f"{dead}:t"], "verb": "delete", "confirmed": "yes"}
    assert browser.post(f"/admin/messages/{namespace}/dlq/act/", data=fields).status_code == 403
    assert state_of(http, dead, namespace) == "dead"
