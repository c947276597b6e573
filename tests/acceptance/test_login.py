"""Guessing passwords at the admin's login: slow for who guesses, and no lock for who was here before."""

import re
import secrets
from collections.abc import Callable, Iterator

import httpx
import psycopg
import pytest

from tenants.throttle import COOKIE, MOST_OF_ACCOUNT, MOST_OF_ADDRESS, MOST_OF_BROWSER
from tests.acceptance.calls import once
from tests.acceptance.conftest import Services
from tests.acceptance.people import make_user
from tests.service import Service

pytestmark = once
LOGIN = "/admin/login/?next=/admin/"


@pytest.fixture
def person(service: Service) -> tuple[str, str]:
    name = f"p-{secrets.token_hex(4)}"
    return name, make_user(service, name)


@pytest.fixture(autouse=True)
def _nothing_before(service: Service) -> Iterator[None]:
    """All tests of a run come from one address."""

    def forget() -> None:
        with psycopg.connect(service.env["CONTROL_DATABASE_URL"], autocommit=True) as control:
            control.execute("DELETE FROM login_attempts")

    forget()
    yield
    forget()


@pytest.fixture
def new_browser(service: Service) -> Iterator[Callable[..., httpx.Client]]:
    opened: list[httpx.Client] = []

    def make(url: str = service.url) -> httpx.Client:
        opened.append(httpx.Client(base_url=url, timeout=30))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def log_in(browser: httpx.Client, name: str, password: str) -> httpx.Response:
    browser.get(LOGIN)
    form = {"username": name, "password": password, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
    return browser.post(LOGIN, data=form)


def test_after_too_many_failures_no_password_is_looked_at(
    new_browser: Callable[..., httpx.Client], person: tuple[str, str]
) -> None:
    name, password = person
    browser = new_browser()
    for _ in range(MOST_OF_ACCOUNT):
        assert log_in(browser, name, "wrong").status_code == 200
    refused = log_in(browser, name, password)
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= 900
    assert "too many failed logins" in refused.text
    assert "sessionid" not in browser.cookies
    assert log_in(new_browser(), name, password).status_code == 429


def test_an_account_has_one_count_however_its_name_is_typed(
    new_browser: Callable[..., httpx.Client], person: tuple[str, str]
) -> None:
    name, password = person
    wide = "".join(chr(ord(one) + 0xFEE0) for one in name)
    typed = [name, f" {name}", f"{name}\t", wide]
    own = new_browser()
    assert log_in(own, wide, password).status_code == 302
    for n in range(MOST_OF_ACCOUNT):
        assert log_in(new_browser(), typed[n % 4], "wrong").status_code == 200
    assert [log_in(new_browser(), one, password).status_code for one in typed] == [429] * 4
    del own.cookies["sessionid"]
    assert log_in(own, f"{name} ", password).status_code == 302  # it is known, too


def test_who_has_logged_in_before_is_not_locked_out(
    new_browser: Callable[..., httpx.Client], person: tuple[str, str], service: Service
) -> None:
    name, password = person
    own = new_browser()
    done = log_in(own, name, password)
    assert done.status_code == 302
    cookie = next(one for one in done.headers.get_list("set-cookie") if one.startswith(COOKIE))
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    attacker = new_browser()
    for _ in range(MOST_OF_ACCOUNT):
        assert log_in(attacker, name, "wrong").status_code == 200
    with psycopg.connect(service.env["CONTROL_DATABASE_URL"]) as control:  # the others that he guesses at
        control.execute("UPDATE login_attempts SET count = %s WHERE who LIKE 'address %%'", [MOST_OF_ADDRESS])
    assert log_in(attacker, "anybody", "x").status_code == 429  # the address is full
    assert log_in(attacker, name, password).status_code == 429
    del own.cookies["sessionid"]
    assert log_in(own, name, password).status_code == 302
    for _ in range(MOST_OF_BROWSER):
        assert log_in(own, name, "wrong").status_code == 200
    assert log_in(own, name, password).status_code == 429  # a browser that was stolen guesses no faster
    with psycopg.connect(service.env["CONTROL_DATABASE_URL"]) as control:
        kept = control.execute("SELECT string_agg(who, ' ') FROM login_attempts").fetchone()
    assert kept
    assert name not in kept[0]


def test_a_cookie_is_good_for_its_own_account_alone(
    new_browser: Callable[..., httpx.Client], person: tuple[str, str], service: Service
) -> None:
    mine = f"m-{secrets.token_hex(4)}"
    attacker = new_browser()
    assert log_in(attacker, mine, make_user(service, mine)).status_code == 302
    name, password = person
    for _ in range(MOST_OF_ACCOUNT):
        log_in(attacker, name, "wrong")
    assert log_in(attacker, name, password).status_code == 429
    attacker.cookies.set(COOKIE, "x:y:z", path="/admin/login/")
    assert log_in(attacker, name, password).status_code == 429


def test_a_login_that_succeeds_is_no_failure(new_browser: Callable[..., httpx.Client], person: tuple[str, str]) -> None:
    name, password = person
    for _ in range(MOST_OF_ACCOUNT - 1):
        log_in(new_browser(), name, "wrong")
    assert log_in(new_browser(), name, password).status_code == 302
    for _ in range(MOST_OF_ACCOUNT - 1):
        assert log_in(new_browser(), name, "wrong").status_code == 200
    assert log_in(new_browser(), name, password).status_code == 302


def test_processes_count_together(
    services: Services, new_browser: Callable[..., httpx.Client], person: tuple[str, str]
) -> None:
    name, password = person
    urls = [services[adapter].url for adapter in ("fast lane", "django")]
    for n in range(MOST_OF_ACCOUNT):
        log_in(new_browser(urls[n % 2]), name, "wrong")
    assert [log_in(new_browser(url), name, password).status_code for url in urls] == [429, 429]


def test_pages_carry_what_keeps_browsers_careful(service: Service, new_browser: Callable[..., httpx.Client]) -> None:
    page = new_browser().get("/admin/login/")
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["cross-origin-opener-policy"] == "same-origin"
    policy = page.headers["content-security-policy"]
    (scripts,) = re.findall(r"script-src ([^;]*)", policy)
    assert scripts == "'self' 'unsafe-eval'"
    assert "frame-ancestors 'none'" in policy
    answer = new_browser().get("/api/v1/namespaces/")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
