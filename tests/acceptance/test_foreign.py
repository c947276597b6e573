"""No credential of one namespace learns anything of another: on every route and verb, whether or not it exists.

The routes come from the tables that serve and describe them, and tests/unit/test_foreign.py holds those to the URLconf.
"""

import secrets
import statistics
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from mqueue.api.openapi import control, operations
from mqueue.core import credentials, tokens
from tests.acceptance.calls import PROBLEM, Json, die, get, is_problem, put
from tests.acceptance.people import make_user
from tests.foreign import asked_of
from tests.service import Service

ROUNDS, LOOKS = 7, 4
NOTICED_S = 0.002
Asked = tuple[str, str, bytes, bytes]
LOOKED_AT = ("", "topics/", "keys/", "quotas/", "members/", "audit/", "dlq/", "jobs/", "usage/hours/", "failures/")
KINDS = ["root key", "namespace key", "API key"]


@pytest.fixture
def theirs(http: httpx.Client, service: Service, namespace: str) -> Json:
    """A namespace with one of everything, and what names it."""
    dead, leased = die(http, namespace), put(http, namespace)
    get(http, namespace)
    put(http, namespace, idempotency_key="k")
    home = f"/api/v1/namespaces/{namespace}/"
    http.put(home + "topics/t/", json={"paused": True})
    http.put(home + "quotas/", json={"max_stored": 5})
    user = f"u-{secrets.token_hex(4)}"
    make_user(service, user)
    assert http.put(home + f"members/{user}/", json={"role": "admin"}).status_code == 201
    kid = http.post(home + "keys/", json={"kind": "HS256"}).json()["kid"]
    job = http.post(home + "jobs/", json={"kind": "delete", "filter": {"topic": "none"}}).json()["id"]
    http.delete(f"{home}jobs/{job}/")  # it stays as it is
    return {"namespace": namespace, "topic": "t", "user": user, "kid": kid, "id": leased, "dead": dead, "job": job}


@pytest.fixture
def absent(namespace: str) -> Json:
    """As long as it, and not there."""
    return {
        "namespace": namespace[:-6] + secrets.token_hex(3),
        "topic": "t",
        "user": f"u-{secrets.token_hex(4)}",
        "kid": credentials.new_kid(),
        "id": 5,
        "job": 10**15,
    }


@pytest.fixture(params=KINDS)
def foreigner(request: pytest.FixtureRequest, service: Service, http: httpx.Client) -> Iterator[httpx.Client]:
    """With every scope, in a namespace of his own."""
    mine = f"mine-{secrets.token_hex(3)}"
    home = f"/api/v1/namespaces/{mine}/"
    http.put(home, json={})
    headers = {}
    if request.param == "API key":
        headers["X-Api-Key"] = http.post(home + "keys/", json={"scopes": ["*"]}).json()["secret"]
    elif request.param == "namespace key":
        key = http.post(home + "keys/", json={"kind": "HS256", "scopes": ["*"]}).json()
        token = tokens.make(key["secret"], "me", ["*"], ["*", "admin"], 600, kid=key["kid"])
        headers["Authorization"] = f"Bearer {token}"
    else:
        headers = dict(service.client(namespaces=[mine]).headers)
    headers.pop("accept-encoding", None)
    with httpx.Client(base_url=service.url, headers=headers, timeout=30) as client:
        assert client.get("/stats", params={"namespace": mine}).status_code == 200
        assert client.get(home).status_code == 200
        yield client


def every_request(names: Json) -> dict[str, Asked]:
    """For something in the namespace, by method and path."""
    found = {}
    for path, verbs in operations.OPERATIONS.items():
        for method, operation in verbs.items():
            at, query, body = asked_of(path, method, operation, names["namespace"], names["id"])
            found[f"{method} {path}"] = method, at, query, body
    for path, verbs in control.OPERATIONS.items():
        for method, operation in verbs.items():
            if "{namespace}" in path:
                _, _, body = asked_of(path, method, operation, names["namespace"])
                found[f"{method} {path}"] = method, path.format(**names), b"", body
    return found


def ask(client: httpx.Client, asked: Asked) -> httpx.Response:
    method, path, query, body = asked
    headers = {"content-type": "application/json"} if body else {}
    return client.request(method, path, params=query.decode(), content=body, headers=headers)


def said(answer: httpx.Response) -> tuple[Any, ...]:
    """All of it but the date."""
    return answer.status_code, answer.text, {name: value for name, value in answer.headers.items() if name != "date"}


def test_every_route_says_the_same_of_what_exists_and_what_does_not(
    foreigner: httpx.Client, theirs: Json, absent: Json, http: httpx.Client
) -> None:
    there, nowhere = every_request(theirs), every_request(absent)
    assert len(there) > 30
    home = f"/api/v1/namespaces/{theirs['namespace']}/"
    before = [http.get(home + part).text for part in LOOKED_AT]
    for name, asked in there.items():
        found, missing = ask(foreigner, asked), ask(foreigner, nowhere[name])
        assert (found.status_code, found.headers["content-type"]) == (403, PROBLEM), (name, found.text)
        assert found.json()["code"] == "forbidden"
        assert said(found) == said(missing), name
        assert theirs["namespace"] not in found.text
    listed = foreigner.get("/api/v1/namespaces/", params={"limit": 1000})
    assert theirs["namespace"] not in listed.text
    assert len(listed.json()["items"]) == 1
    is_problem(foreigner.get("/metrics"), 403, "forbidden")
    assert before == [http.get(home + part).text for part in LOOKED_AT]


def test_no_route_takes_longer_for_what_exists(foreigner: httpx.Client, theirs: Json, absent: Json) -> None:
    """Both by turns, so that what else the machine does falls on both; and a difference that is one is there again
    whenever one looks."""
    there, nowhere = every_request(theirs), every_request(absent)

    def difference(name: str, rounds: int = ROUNDS) -> float:
        took: dict[bool, list[float]] = {True: [], False: []}
        for number in range(2 * rounds):
            exists = number % 4 in (0, 3)  # neither is always the first
            took[exists].append(timed(foreigner, (there if exists else nowhere)[name]))
        return statistics.median(took[True]) - statistics.median(took[False])

    differences = {name: difference(name) for name in there}
    for look in range(1, LOOKS + 1):
        for name in [name for name, found in differences.items() if abs(found) > NOTICED_S]:
            differences[name] = difference(name, ROUNDS * 2**look)
    assert abs(statistics.median(differences.values())) < NOTICED_S / 4, differences
    assert {name: found for name, found in differences.items() if abs(found) > NOTICED_S} == {}


def timed(client: httpx.Client, asked: Asked) -> float:
    began = time.perf_counter()
    assert ask(client, asked).status_code == 403
    return time.perf_counter() - began


def test_what_names_it_in_a_body_beside_ones_own_is_refused_whole(
    foreigner: httpx.Client, theirs: Json, http: httpx.Client
) -> None:
    """A batch with one foreign message changes nothing at all."""
    (own,) = [one["name"] for one in foreigner.get("/api/v1/namespaces/").json()["items"]]
    batch = [{"namespace": name, "topic": "t", "body": 1} for name in (own, theirs["namespace"])]
    is_problem(foreigner.post("/enqueue", json=batch), 403, "forbidden")
    assert get(http, own) == []
    settles = [{"namespace": name, "topic": "t", "id": theirs["id"]} for name in (own, theirs["namespace"])]
    for verb in ("ack", "nack", "extend", "release"):
        is_problem(foreigner.post(f"/{verb}", json=settles), 403, "forbidden")
        answer = foreigner.post(f"/{verb}", json=settles[:1])  # their id, in one's own namespace
        assert answer.json() == [{"id": theirs["id"], "code": "not_leased"}]
    for path in ("", "/trace"):
        asked = {"namespace": own, "topic": "t"}
        is_problem(foreigner.get(f"/messages/{theirs['id']}{path}", params=asked), 404, "not_found")
