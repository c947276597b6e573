"""Who works in the admin: logs in as a browser does, and waits for pages."""

import os
import secrets
import subprocess
import time
from http.cookiejar import CookieJar
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

from bench.service import Service
from launch.services import MANAGE
from mqueue.core.conf import ROOT

NAME = "bench"


class Person:
    """With an account of its own, which may do everything."""

    def __init__(self, service: Service) -> None:
        self._home = service.conf.api.origin
        self._cookies = CookieJar()
        self._browser = build_opener(HTTPCookieProcessor(self._cookies))
        password = secrets.token_urlsafe(16)
        account = {"DJANGO_SUPERUSER_PASSWORD": password}
        command = [*MANAGE, "createsuperuser", "--noinput", "--username", NAME, "--email", "bench@example.com"]
        env = dict(os.environ) | service.env | account
        subprocess.run(command, env=env, cwd=ROOT, check=True, capture_output=True)
        self._log_in(password)

    def seconds_for(self, path: str) -> float:
        """To get a page, which has to be there."""
        began = time.perf_counter()
        with self._browser.open(self._home + path) as answer:
            page = answer.read().decode()
        took = time.perf_counter() - began
        if "/login/" in answer.url:
            raise RuntimeError(f"{path} asks for a login: {page[:200]}")
        return took

    def _log_in(self, password: str) -> None:
        login = self._home + "/admin/login/?next=/admin/"
        self._browser.open(login).close()
        form = {"username": NAME, "password": password, "next": "/admin/"}
        form["csrfmiddlewaretoken"] = next(cookie.value or "" for cookie in self._cookies if cookie.name == "csrftoken")
        self._browser.addheaders.append(("Referer", login))
        self._browser.open(login, urlencode(form).encode()).close()
