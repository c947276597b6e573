"""The admin in a real Chromium: people's ways through it, and strangers' bytes that do nothing there.

`make screenshots` runs the same, and keeps what it sees in docs/figures.
"""

import datetime
import math
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from shards.routing import slot_of
from tests.acceptance.calls import die, get, once, put, settle
from tests.acceptance.conftest import Services
from tests.acceptance.people import make_user
from tests.browser import Browser, chromium, find_chromium
from tests.letters import bury
from tests.rollups import add_failure, add_hour, number_of, tell_rolled_up
from tests.service import Service

PROGRAM = find_chromium()
FIGURES = os.environ.get("MQUEUE_FIGURES")
MOST_BYTES = 150_000
WIDTH = 1280
pytestmark = [once, pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on this machine")]
HOSTILE = (
    '<script>window.struck = 1</script><img src=x onerror="window.struck = 2">{{ 7 * 7 }}\' onmouseover=alert(1) "'
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert PROGRAM
    with chromium(PROGRAM) as found:
        found.size(WIDTH, 860)
        yield found


@pytest.fixture(scope="module")
def root(services: Services) -> tuple[str, str]:
    name = "grace" if FIGURES else f"support-{secrets.token_hex(3)}"
    return name, make_user(services["fast lane"], name, is_superuser=True)


@pytest.fixture
def logged_in(browser: Browser, service: Service, root: tuple[str, str]) -> Browser:
    browser.tell("Network.clearBrowserCookies")
    browser.go("about:blank")
    browser.events.clear()
    browser.go(f"{service.url}/admin/")
    browser.fill("#id_username", root[0])
    browser.fill("#id_password", root[1])
    browser.click("#login-form button[type=submit]")
    assert "Messages" in browser.text()
    return browser


def picture(browser: Browser, name: str, height: int = 560) -> None:
    """Kept where somebody asked for figures."""
    if FIGURES:
        path = Path(FIGURES) / f"{name}.png"
        browser.size(WIDTH, height)
        browser.picture(path, WIDTH, height)
        assert path.stat().st_size <= MOST_BYTES, path


def no_complaint(browser: Browser) -> None:
    """No script was refused or failed, and nothing was loaded from elsewhere."""
    assert browser.said("Runtime.exceptionThrown") == []
    entries = [event["params"]["entry"] for event in browser.said("Log.entryAdded")]
    assert [(entry["text"], entry.get("url")) for entry in entries if entry["level"] == "error"] == []


def fill_with_life(service: Service, http: httpx.Client, namespace: str) -> None:
    """A mail service that had a bad night."""
    home = f"/api/v1/namespaces/{namespace}/"
    http.put(home, json={"description": "Mail for customers"})
    http.put(home + "quotas/", json={"messages_per_minute": 60_000, "max_stored": 1_000_000, "max_in_flight": 5_000})
    order = {"order": 20417, "to": "ada@example.com", "items": [{"sku": "A-17", "count": 2}], "total": 41.5}
    for topic, count in (("emails", 240), ("invoices", 35), ("push", 12)):
        batch = [{"namespace": namespace, "topic": topic, "body": order | {"n": n}} for n in range(count)]
        assert http.post("/enqueue", json=batch).status_code == 200
    for _ in range(12):
        put(http, namespace, "reminders", delay_ms=3_600_000)
    get(http, namespace, "emails", limit=18, visibility_ms=600_000)
    for message in get(http, namespace, "invoices", limit=20):
        settle(http, "ack", message)
    http.patch(home + "topics/push/", json={"paused": True})
    number = put(
        http, namespace, "invoices", body=order, priority=0, max_retries=1, retry={"base_ms": 0},
        headers={"content-language": "en", "tenant": "shop-eu"},
    )  # fmt: skip
    for error in ("smtp: 421 try again later", "smtp: 550 no such user ada@example.com"):
        (held,) = get(http, namespace, "invoices", wait_ms=5_000)
        assert held["id"] == number
        settle(http, "nack", held, error=error)
    with psycopg.connect(service.env["CONTROL_DATABASE_URL"]) as control:
        topics = control.execute(
            "SELECT t.name, t.id FROM topic t JOIN namespace n ON n.id = t.namespace_id WHERE n.name = %s", [namespace]
        ).fetchall()
    for name, number in topics:
        if name == "emails":
            errors = ("smtp: 421 try again later", "timeout after 30 s", "smtp: 550 mailbox unavailable")
            for place, error in enumerate(errors):
                add(
                    service,
                    namespace,
                    name,
                    number,
                    600,
                    first=(1 << 28) + place * 1000,
                    error=error,
                    reason="max_retries",
                )


def add(service: Service, namespace: str, topic: str, number: int, count: int, **fields: Any) -> None:
    slot = slot_of(namespace, topic)
    urls = service.env["DATABASE_URLS"].split(",")
    with psycopg.connect(urls[slot * len(urls) // 1024], autocommit=True) as shard:
        bury(shard, number, slot, count, attempts=4, body={"order": 7}, **fields)


def test_the_ways_of_a_support_engineer(
    logged_in: Browser, service: Service, http: httpx.Client, root: tuple[str, str], namespace: str
) -> None:
    namespace = "shop" if FIGURES else namespace[:40].strip("-")
    fill_with_life(service, http, namespace)
    at = f"{service.url}/admin/messages/{namespace}/"
    logged_in.go(at)
    assert "paused" in logged_in.text(".mq-table")
    picture(logged_in, "admin-topics")
    logged_in.go(f"{at}dlq/")
    assert logged_in.text("#matching") == "1,000+ dead letters"
    picture(logged_in, "admin-dead-letters", 760)
    logged_in.fill("input[name=text]", "mailbox UNAVAILABLE")
    logged_in.click(".mq-search button")
    assert logged_in.text("#matching") == "600 dead letters"
    logged_in.go(f"{at}dlq/?topic=invoices")
    logged_in.click(".mq-table tbody a")
    assert '"sku": "A-17"' in logged_in.text("#payload")
    assert "smtp: 421" in logged_in.text(".mq-timeline")
    picture(logged_in, "admin-dead-letter", 860)
    logged_in.click("button[value=replay]")
    assert "They are due at once" in logged_in.text()
    logged_in.click(".mq form .mq-primary")
    assert "1 dead letters requeued" in logged_in.text()
    logged_in.go(f"{at}dlq/?error=timeout")
    logged_in.click("a[href*='verb=replay']")
    assert logged_in.text("#matching") == "600"
    logged_in.fill("input[name=rate_per_s]", "100")
    picture(logged_in, "admin-requeue")
    logged_in.click(".mq-form .mq-primary")
    job = logged_in.run("location.href")
    service.until(lambda: http.get(f"/api/v1/namespaces/{namespace}/jobs/").json()["items"][0]["done"] >= 200, 20, "on")
    logged_in.go(str(job))
    assert logged_in.text("#state") == "running"
    picture(logged_in, "admin-job")
    service.until(
        lambda: http.get(f"/api/v1/namespaces/{namespace}/usage/").json()["items"][:1] != [], 20, "usage is counted"
    )
    logged_in.go(f"{at}usage/")
    assert "emails" in logged_in.text(".mq")
    no_complaint(logged_in)


MAILBOX = "smtp: 550 mailbox unavailable"
ERRORS = (  # fingerprint, a sample, topic, reason, and how many died today, yesterday, …
    ("smtp: <n> mailbox unavailable", MAILBOX, "emails", "max_retries", (410, 190)),
    ("timeout after <n> s", "timeout after 30 s", "emails", "max_retries", (22, 25, 31, 18, 40, 44, 12, 60, 35)),
    ("no such customer: <text>", 'no such customer: "A-20417"', "invoices", "rejected", (0, 3, 0, 0, 9, 4)),
    ("", "", "push", "expired", (0, 0, 0, 2)),
)


def roll_up(service: Service, namespace: str) -> None:
    """A week of a mail service, and its bad end."""
    now = datetime.datetime.now(datetime.UTC)
    with psycopg.connect(service.env["CONTROL_DATABASE_URL"], autocommit=True) as control:
        tell_rolled_up(control)
        for n in range(7 * 24 - 2):
            hour = now.replace(minute=0, second=0, microsecond=0) - n * datetime.timedelta(hours=1)
            busy = 1.3 + math.sin((hour.hour - 8) / 24 * math.tau) + 0.2 * math.sin(n * 1.7)
            count, slow = round(2000 * busy), 20 if n < 30 else 1
            add_hour(
                control, namespace, "emails", hour, messages=count, bytes=count * 900, deliveries=count + 40,
                acked=round(count * (0.8 if n < 30 else 0.99)), retries=round(15 * busy) * slow,
                dead=n % 5 + (80 if n < 30 else 0), wait_ms=[2.1 * slow, (5 + busy) * slow, 12 * slow * (1 + busy)],
                work_ms=[45 + n % 7, 180 + n % 40, 300 + 90 * busy],
                total_ms=[50 + 2 * slow, 190 + 6 * slow + n % 40, 320 + (90 + 12 * slow) * busy],
            )  # fmt: skip
        for fingerprint, sample, topic, reason, deaths in ERRORS:
            for ago, count in enumerate(deaths):
                if count:
                    day = (now - datetime.timedelta(days=ago)).date()
                    add_failure(control, namespace, topic, day, fingerprint, count, sample=sample, reason=reason)


def test_the_ways_to_see_what_was_rolled_up(
    logged_in: Browser, service: Service, http: httpx.Client, root: tuple[str, str], namespace: str
) -> None:
    namespace = "mail" if FIGURES else namespace[:40].strip("-")
    put(http, namespace, "emails")
    roll_up(service, namespace)
    with psycopg.connect(service.env["CONTROL_DATABASE_URL"]) as control:
        number = number_of(control, namespace, "emails")
    add(service, namespace, "emails", number, 600, first=1 << 28, error=MAILBOX, reason="max_retries")
    add(service, namespace, "emails", number, 70, first=1 << 29, error="timeout after 30 s", reason="max_retries")
    at = f"{service.url}/admin/messages/{namespace}/"
    logged_in.go(f"{at}usage/")
    assert logged_in.run("document.querySelectorAll('.mq-chart').length") == 6
    assert logged_in.run("document.querySelectorAll('.mq-chart .mq-none').length") == 0
    assert "wait" in logged_in.text(".mq-charts").lower()
    picture(logged_in, "admin-usage", 1000)
    logged_in.run("document.querySelector('select[name=days]').value = '30'")
    logged_in.click("form.mq-bar button")
    assert "By day" in logged_in.text("#hours")
    logged_in.go(f"{at}usage/?topic=push")
    assert "Nothing in these 7 days in push." in logged_in.text()
    logged_in.go(f"{at}failures/")
    assert "smtp: <n> mailbox unavailable" in logged_in.text(".mq-failures tbody tr")
    assert "670 of the topic wait" in logged_in.text(".mq-failures tbody tr")
    picture(logged_in, "admin-failures", 640)
    logged_in.click(".mq-failures tbody tr a[href*='verb=replay']")
    assert logged_in.text("#matching") == "600"
    logged_in.go(f"{at}failures/")
    logged_in.click(".mq-failures tbody tr a[href*='dlq/?']")
    assert logged_in.text("#matching") == "600 dead letters"
    assert logged_in.run("document.querySelector('input[name=error]').value") == "mailbox unavailable"
    no_complaint(logged_in)


def test_what_strangers_write_is_text(logged_in: Browser, service: Service, http: httpx.Client, namespace: str) -> None:
    http.put(f"/api/v1/namespaces/{namespace}/", json={"description": HOSTILE})
    put(http, namespace, body={"html": HOSTILE}, headers={HOSTILE: HOSTILE})
    (held,) = get(http, namespace)
    settle(http, "nack", held, error=HOSTILE, dead=True)
    text = die(http, namespace, headers={"h": "\u202eevil"})
    job = {"kind": "delete", "filter": {"text": HOSTILE}, "dry_run": True}
    with service.client(subject=HOSTILE) as stranger:
        stranger.post(f"/api/v1/namespaces/{namespace}/jobs/", json=job)
    with psycopg.connect(service.env["CONTROL_DATABASE_URL"], autocommit=True) as control:
        today = datetime.datetime.now(datetime.UTC).date()
        add_failure(control, namespace, "t", today, HOSTILE, 1, sample=f"{HOSTILE}\u202e", reason="rejected")
    at = f"{service.url}/admin/messages/{namespace}/"
    for path in (
        "",
        "dlq/",
        f"dlq/{held['id']}/",
        f"dlq/{text}/",
        "jobs/",
        "usage/",
        "failures/",
        "dlq/?text=%3Cscript%3E",
    ):
        logged_in.go(at + path)
        assert logged_in.run("window.struck") is None, path
        assert logged_in.run("document.querySelectorAll('img[src=x]').length") == 0
    logged_in.go(f"{at}dlq/{held['id']}/")
    assert "<script>window.struck = 1</script>" in logged_in.text("#payload")
    assert "<img src=x" in logged_in.text("#error")
    assert "<img src=x" in logged_in.text("#headers")
    assert "{{ 7 * 7 }}" in logged_in.text("#error")
    logged_in.go(f"{at}dlq/{text}/")
    assert "\\u202eevil" in logged_in.text("#headers")
    logged_in.go(f"{service.url}/admin/messages/?prefix={namespace}")
    assert "<script>" in logged_in.text(".mq-table")
    logged_in.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.struck = 3\">')")
    logged_in.run("document.body.append(Object.assign(document.createElement('script'), {text: 'window.struck = 4'}))")
    assert logged_in.run("window.struck") is None  # even what gets into a page does not run: the policy refuses it


def test_pages_of_the_admin_work_under_their_policy(logged_in: Browser, service: Service) -> None:
    pages = ("", "tenants/namespace/", "tenants/namespace/add/", "tenants/topic/", "tenants/key/add/", "auth/user/add/")
    for path in pages:
        logged_in.go(f"{service.url}/admin/{path}")
    no_complaint(logged_in)
    logged_in.go(f"{service.url}/api/docs/")
    service.until(lambda: "/enqueue" in logged_in.text(), 10, "the docs show")
    no_complaint(logged_in)


def test_all_on_a_page_are_ticked_at_once(
    logged_in: Browser, service: Service, http: httpx.Client, namespace: str
) -> None:
    for _ in range(3):
        die(http, namespace)
    logged_in.go(f"{service.url}/admin/messages/{namespace}/dlq/")
    logged_in.run("document.querySelector('[data-all]').click()")
    assert logged_in.run("document.querySelectorAll('[name=chosen]:checked').length") == 3
    logged_in.click("button[value=delete]")
    assert "There is no way back" in logged_in.text()
    logged_in.click(".mq form .mq-danger")
    assert "3 dead letters deleted" in logged_in.text()
