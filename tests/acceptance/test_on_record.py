"""Every administrative act leaves exactly one line in the audit log: each route of the control plane that changes
something, and each act of the admin. What the walk does not know is missed by it."""

import re
import secrets
from collections.abc import Callable

import httpx
import pytest

from mqueue.api.control.urls import HOME, VIEWS
from mqueue.api.support.urls import PAGES
from tests.acceptance.calls import Json, die, once, put
from tests.acceptance.people import make_user, session
from tests.service import Service

pytestmark = once
Act = Callable[[httpx.Client, Json], httpx.Response]
LOOKS = {"GET"}
PUT_TOPIC: Json = {"paused": True}

ACTS: dict[tuple[str, str], Act] = {
    ("PUT", ""): lambda http, at: http.put(at["home"], json={"description": "x"}),
    ("PATCH", ""): lambda http, at: http.patch(at["home"], json={"description": "y"}),
    ("PUT", "topics/{topic}/"): lambda http, at: http.put(f"{at['home']}topics/t/", json=PUT_TOPIC),
    ("PATCH", "topics/{topic}/"): lambda http, at: http.patch(f"{at['home']}topics/t/", json={"max_retries": 1}),
    ("DELETE", "topics/{topic}/"): lambda http, at: http.delete(f"{at['home']}topics/t/", params={"force": "true"}),
    ("POST", "topics/{topic}/purge/"): lambda http, at: http.post(f"{at['home']}topics/u/purge/"),
    ("POST", "keys/"): lambda http, at: http.post(f"{at['home']}keys/", json={}),
    ("DELETE", "keys/{kid}/"): lambda http, at: http.delete(f"{at['home']}keys/{at['kid']}/"),
    ("PUT", "quotas/"): lambda http, at: http.put(f"{at['home']}quotas/", json={"max_stored": 9}),
    ("PATCH", "quotas/"): lambda http, at: http.patch(f"{at['home']}quotas/", json={"max_stored": 8}),
    ("PUT", "members/{user}/"): lambda http, at: http.put(
        f"{at['home']}members/{at['user']}/", json={"role": "viewer"}
    ),
    ("DELETE", "members/{user}/"): lambda http, at: http.delete(f"{at['home']}members/{at['user']}/"),
    ("POST", "jobs/"): lambda http, at: http.post(
        f"{at['home']}jobs/", json={"kind": "delete", "filter": {"topic": "none"}}
    ),
    ("DELETE", "jobs/{job}/"): lambda http, at: http.delete(f"{at['home']}jobs/{at['slow']}/"),
    ("DELETE", ""): lambda http, at: http.delete(at["home"], params={"force": "true"}),
}
IN_ADMIN: dict[str, Json] = {
    "pause": {"paused": "yes"},
    "purge": {},
    "act": {"verb": "delete", "confirmed": "yes"},
    "act_on_all": {"verb": "replay"},
    "job": {},
}


@pytest.fixture
def at(service: Service, http: httpx.Client, namespace: str) -> Json:
    home = HOME.format(namespace=namespace)
    http.put(home, json={})
    dead = die(http, namespace, "u")
    put(http, namespace, "u")
    user = f"u-{secrets.token_hex(4)}"
    make_user(service, user)
    kid = http.post(home + "keys/", json={}).json()["kid"]
    return {"home": home, "namespace": namespace, "user": user, "kid": kid, "dead": dead}


def lines(http: httpx.Client, at: Json) -> list[Json]:
    found: list[Json] = http.get(at["home"] + "audit/", params={"limit": 1000}).json()["items"]
    return found


def a_slow_job(http: httpx.Client, at: Json) -> int:
    for _ in range(3):
        die(http, at["namespace"], "slow")
    wanted = {"kind": "delete", "filter": {"topic": "slow"}, "rate_per_s": 1}
    return int(http.post(at["home"] + "jobs/", json=wanted).json()["id"])


def test_every_route_that_changes_something(http: httpx.Client, at: Json) -> None:
    known = {
        (method, path.removeprefix(HOME))
        for path, view in VIEWS.items()
        for method in view.roles
        if method not in LOOKS and path.startswith(HOME)
    }
    assert known == ACTS.keys()
    at["slow"] = a_slow_job(http, at)
    for (method, path), act in ACTS.items():
        before = len(lines(http, at))
        answer = act(http, at)
        assert answer.is_success, (method, path, answer.text)
        assert len(lines(http, at)) == before + 1, (method, path)


def test_every_act_of_the_admin(service: Service, http: httpx.Client, at: Json) -> None:
    acting = {name for name, (_, page) in PAGES.items() if set(page.roles) - LOOKS}
    assert acting == IN_ADMIN.keys()
    name = f"root-{secrets.token_hex(3)}"
    with session(service, name, make_user(service, name, is_superuser=True)) as person:
        for page, fields in IN_ADMIN.items():
            path = "/admin/" + PAGES[page][0].replace("<str:namespace>", at["namespace"]).replace("<str:topic>", "u")
            if page == "job":
                path = path.replace("<str:number>", str(a_slow_job(http, at)))
            before = len(lines(http, at))
            given: Json = {"csrfmiddlewaretoken": person.cookies["csrftoken"]} | fields
            given["chosen"] = [f"{at['dead']}:u"]
            assert person.post(path, data=given).status_code == 200, page
            noted = lines(http, at)
            assert len(noted) == before + 1, page
            assert (noted[0]["actor"], noted[0]["via"]) == (name, "session")
            assert re.fullmatch(r"[a-z]+\.[a-z]+", noted[0]["action"])
