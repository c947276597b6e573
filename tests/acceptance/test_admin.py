"""The Django admin, through its login, on the running service."""

import secrets
import subprocess
from collections.abc import Iterator

import httpx
import pytest

from launch.services import MANAGE
from mqueue.core.conf import ROOT
from tests.acceptance.calls import once
from tests.service import Service

pytestmark = once


@pytest.fixture
def browser(service: Service) -> Iterator[httpx.Client]:
    """Logged in as a superuser that `manage.py createsuperuser` made."""
    name, password = f"admin-{secrets.token_hex(3)}", secrets.token_urlsafe(16)
    command = [*MANAGE, "createsuperuser", "--noinput", "--username", name, "--email", "a@example.com"]
    env = service.env | {"DJANGO_SUPERUSER_PASSWORD": password}
    subprocess.run(command, env=env, cwd=ROOT, check=True, capture_output=True)
    with httpx.Client(base_url=service.url, follow_redirects=True) as browser:
        page = browser.get("/admin/")
        assert page.url.path == "/admin/login/"
        form = {"username": name, "password": password, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
        assert browser.post(page.url, data=form).url.path == "/admin/"
        yield browser


PAGES = [
    "/admin/",
    "/admin/tenants/namespace/",
    "/admin/tenants/namespace/add/",
    "/admin/tenants/topic/",
    "/admin/tenants/key/",
    "/admin/tenants/key/add/",
    "/admin/tenants/auditentry/",
    "/admin/auth/user/",
]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_admin_shows(browser: httpx.Client, page: str) -> None:
    answer = browser.get(page)
    assert answer.status_code == 200
    assert "mqueue" in answer.text


def test_topics_are_listed_and_cannot_be_changed(browser: httpx.Client, http: httpx.Client, namespace: str) -> None:
    http.post("/enqueue", json={"namespace": namespace, "topic": "listed", "body": 1})
    page = browser.get("/admin/tenants/topic/", params={"q": "listed"}).text
    assert "listed" in page
    assert namespace in page
    assert browser.get("/admin/tenants/topic/add/").status_code == 403


def test_a_namespace_that_was_made_in_the_admin_is_used_as_it_is(browser: httpx.Client, http: httpx.Client) -> None:
    name = f"made-{secrets.token_hex(4)}"
    browser.get("/admin/tenants/namespace/add/")
    form = {"name": name, "csrfmiddlewaretoken": browser.cookies["csrftoken"], "_save": "Save"}
    assert browser.post("/admin/tenants/namespace/add/", data=form).url.path == "/admin/tenants/namespace/"
    assert http.post("/enqueue", json={"namespace": name, "topic": "t", "body": 1}).status_code == 200
    wrong = browser.post("/admin/tenants/namespace/add/", data=form | {"name": "Not A Name"})
    assert wrong.url.path == "/admin/tenants/namespace/add/"
