"""People with accounts, and their sessions."""

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from launch.services import MANAGE
from mqueue.core.conf import ROOT
from tests.service import Service


def make_user(service: Service, name: str, *, is_staff: bool = True, is_superuser: bool = False) -> str:
    """The password."""
    password = secrets.token_urlsafe(16)
    code = (
        "from django.contrib.auth.models import User; "
        f"User.objects.create_user({name!r}, password={password!r}, is_staff={is_staff}, is_superuser={is_superuser})"
    )
    subprocess.run([*MANAGE, "shell", "-v0", "-c", code], env=service.env, cwd=ROOT, check=True, capture_output=True)
    return password


@contextmanager
def session(service: Service, name: str, password: str) -> Iterator[httpx.Client]:
    """Through the admin's login, as a browser does it."""
    with httpx.Client(base_url=service.url, follow_redirects=True, timeout=30) as browser:
        page = browser.get("/admin/login/?next=/admin/")
        form = {"username": name, "password": password, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
        assert browser.post(page.url, data=form).url.path == "/admin/"
        browser.headers["X-CSRFToken"] = browser.cookies["csrftoken"]
        browser.headers["Referer"] = service.url
        yield browser
