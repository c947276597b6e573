"""A namespace's own keys, over HTTP: made, used, rotated, revoked."""

import subprocess
import time
from collections.abc import Iterator
from typing import Any

import httpx
import jwt
import psycopg
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from launch.services import MANAGE
from mqueue.core.conf import ROOT
from tests.acceptance.calls import Json, get, is_problem, once, put
from tests.acceptance.conftest import Services
from tests.servers import running, worker_number
from tests.service import Service

PRIVATE: dict[str, Any] = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
SPKI = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
REVOKED_S = 2.0


@pytest.fixture
def home(http: httpx.Client, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/"
    assert http.put(path, json={}).status_code == 201
    return path


def make(http: httpx.Client, home: str, **asked: Any) -> Json:
    if asked.get("kind") in PRIVATE:
        asked["public_key"] = PRIVATE[asked["kind"]].public_key().public_bytes(*SPKI).decode()
    answer = http.post(home + "keys/", json=asked)
    assert answer.status_code == 201, answer.text
    made: Json = answer.json()
    return made


def signed(key: Json, **claims: Any) -> str:
    secret = PRIVATE.get(key["kind"]) or key["secret"]
    body = {"sub": "worker", "exp": int(time.time()) + 600} | claims
    return jwt.encode(body, secret, algorithm=key["kind"], headers={"kid": key["kid"]})


def with_token(service: Service, token: str) -> httpx.Client:
    return httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {token}"}, timeout=30)


def with_api_key(service: Service, key: Json) -> httpx.Client:
    return httpx.Client(base_url=service.url, headers={"X-Api-Key": key["secret"]}, timeout=30)


def stats(http: httpx.Client, namespace: str) -> int:
    return http.get("/stats", params={"namespace": namespace}).status_code


def test_an_api_key_serves_at_once_and_no_further_than_its_scopes(
    service: Service, http: httpx.Client, home: str, namespace: str
) -> None:
    key = make(http, home, name="worker", scopes=["enqueue"])
    assert key["secret"].startswith(key["prefix"])
    with with_api_key(service, key) as worker:
        message_id = put(worker, namespace)
        is_problem(worker.get("/dequeue", params={"namespace": namespace, "topic": "t"}), 403, "forbidden")
        is_problem(worker.get("/stats", params={"namespace": "default"}), 403, "forbidden")
        is_problem(worker.get(home), 403, "forbidden")
    trace = http.get(f"/messages/{message_id}/trace", params={"namespace": namespace, "topic": "t"}).json()
    assert trace["events"][0]["consumer"] == "worker"
    with with_api_key(service, key | {"secret": key["secret"][:-1] + "-"}) as stranger:
        assert stats(stranger, namespace) == 401


@pytest.mark.parametrize("kind", ["HS256", "RS256", "ES256", "EdDSA"])
def test_a_token_of_a_namespaces_key_serves_at_once(
    service: Service, http: httpx.Client, home: str, namespace: str, kind: str
) -> None:
    key = make(http, home, kind=kind)
    assert ("secret" in key) is (kind == "HS256")
    assert ("public_key" in key) is (kind != "HS256")
    for claims in ({}, {"allowed_namespaces": ["*"], "scopes": ["*"]}, {"allowed_namespaces": [namespace]}):
        with with_token(service, signed(key, **claims)) as worker:
            put(worker, namespace)
            assert len(get(worker, namespace)) == 1
            is_problem(worker.get("/stats", params={"namespace": "default"}), 403, "forbidden")
    with with_token(service, signed(key, allowed_namespaces=["default"])) as worker:
        for other in ("default", namespace):
            is_problem(worker.get("/stats", params={"namespace": other}), 403, "forbidden")


def test_a_key_is_shown_once(http: httpx.Client, home: str, service: Service) -> None:
    made = [make(http, home), make(http, home, kind="HS256")]
    shown = [http.get(home + "keys/").text, http.get(home + "audit/").text]
    shown += [http.get(f"{home}keys/{key['kid']}/").text for key in made]
    with psycopg.connect(service.env["CONTROL_DATABASE_URL"]) as control:
        shown += [str(row) for row in control.execute("SELECT k::text, material FROM namespace_key k").fetchall()]
        shown += [str(row) for row in control.execute("SELECT a::text FROM audit a").fetchall()]
    shown.append("".join(path.read_text(errors="replace") for path in (service.data / "log").glob("*")))
    for key in made:
        secret = key["secret"].split("_", 2)[-1] if key["kind"] == "api_key" else key["secret"]
        assert not any(secret in text or secret.encode().hex() in text for text in shown)
        assert any(key["kid"] in text for text in shown)


def test_keys_overlap_while_they_are_rotated(service: Service, http: httpx.Client, home: str, namespace: str) -> None:
    old, new = make(http, home, kind="HS256", name="old"), make(http, home, kind="EdDSA", name="new")
    with with_token(service, signed(old)) as before, with_token(service, signed(new)) as after:
        assert (stats(before, namespace), stats(after, namespace)) == (200, 200)
        assert http.delete(f"{home}keys/{old['kid']}/").status_code == 204
        assert http.delete(f"{home}keys/{old['kid']}/").status_code == 204
        service.until(lambda: stats(before, namespace) == 401, REVOKED_S, "the old key is refused")
        assert stats(after, namespace) == 200
    listed = http.get(home + "keys/").json()["items"]
    assert [(one["name"], bool(one["revoked_at"])) for one in listed] == [("new", False), ("old", True)]
    assert [one["kid"] for one in http.get(home + "keys/", params={"state": "live"}).json()["items"]] == [new["kid"]]
    assert [one["kid"] for one in http.get(home + "keys/", params={"kind": "HS256"}).json()["items"]] == [old["kid"]]
    page = http.get(home + "keys/", params={"limit": 1}).json()
    assert [one["name"] for one in http.get(home + "keys/", params={"after": page["next"]}).json()["items"]] == ["old"]
    acts = [(one["action"], one["target"]) for one in http.get(home + "audit/").json()["items"]]
    assert acts[:3] == [("key.revoke", old["kid"]), ("key.create", new["kid"]), ("key.create", old["kid"])]


@once
def test_a_revoked_key_is_refused_in_every_process_within_two_seconds(
    services: Services, http: httpx.Client, home: str, namespace: str
) -> None:
    both = [services["fast lane"], services["django"]]
    for asked in ({"kind": "HS256"}, {}):
        key = make(http, home, **asked)
        clients = [with_api_key(one, key) if key["kind"] == "api_key" else with_token(one, signed(key)) for one in both]
        for _ in range(3):  # by then its requests are known, bytes and all
            assert [stats(client, namespace) for client in clients] == [200, 200]
        began = time.monotonic()
        http.delete(f"{home}keys/{key['kid']}/")
        while [stats(client, namespace) for client in clients] != [401, 401]:
            assert time.monotonic() - began < REVOKED_S
        is_problem(clients[0].get("/stats", params={"namespace": namespace}), 401, "unauthenticated")
        for client in clients:
            client.close()


@pytest.fixture
def many_workers(fresh_databases: str, tmp_path: Any) -> Iterator[Service]:
    env = running().environment(fresh_databases, 48 + worker_number()) | {"MQUEUE_API_WORKERS": "3"}
    service = Service(tmp_path / "data", env)
    yield service
    service.end()


def test_every_worker_of_a_node_hears_of_it(many_workers: Service) -> None:
    service = many_workers.start()
    with service.client() as http:
        home = "/api/v1/namespaces/n/"
        http.put(home, json={})
        key = make(http, home)

        def answers() -> set[int]:
            """On connections of their own, so that each worker gets some."""
            found = set()
            for _ in range(30):
                with with_api_key(service, key) as one:
                    found.add(stats(one, "n"))
            return found

        assert answers() == {200}
        http.delete(f"{home}keys/{key['kid']}/")
        time.sleep(1.0)
        assert answers() == {401}
    assert service.stop() == 0


@once
def test_nobody_grants_more_than_he_has(service: Service, http: httpx.Client, home: str, namespace: str) -> None:
    with service.client(namespaces=[namespace], scopes=["admin"]) as admin:
        is_problem(admin.post(home + "keys/", json={"scopes": ["*"]}), 403, "forbidden")
        key = make(admin, home, kind="HS256")
        assert key["scopes"] == ["admin", "dequeue", "dlq", "enqueue"]
    with with_token(service, signed(key)) as own:
        is_problem(own.delete(home), 403, "forbidden")
        is_problem(own.post(home + "keys/", json={"scopes": ["*"]}), 403, "forbidden")
        assert own.put(home + "topics/t/", json={}).status_code == 201
        (made,) = http.get(home + "audit/", params={"action": "topic.create"}).json()["items"]
        assert (made["actor"], made["via"]) == ("worker", f"key {key['kid']}")
        is_problem(own.get("/metrics"), 403, "forbidden")
    with with_api_key(service, make(http, home, scopes=["*"])) as owner:
        is_problem(owner.get("/metrics"), 403, "forbidden")
        assert [one["name"] for one in owner.get("/api/v1/namespaces/").json()["items"]] == [namespace]
        assert owner.delete(home).status_code == 204
        service.until(lambda: stats(owner, namespace) == 401, REVOKED_S, "its keys went with it")


WRONG: dict[str, tuple[Json, str]] = {
    "an unknown kind": ({"kind": "HS512"}, "kind"),
    "an unknown scope": ({"scopes": ["everything"]}, "scopes[0]"),
    "no scope": ({"scopes": []}, "scopes"),
    "no public key": ({"kind": "RS256"}, "public_key"),
    "a public key of another kind": ({"kind": "RS256", "public_key": "-----BEGIN"}, "public_key"),
    "a public key of no use": ({"kind": "HS256", "public_key": "x"}, "public_key"),
    "an expiry in the past": ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
    "an expiry without a zone": ({"expires_at": "2090-01-01T00:00:00"}, "expires_at"),
    "a long name": ({"name": "x" * 101}, "name"),
    "a name with NUL": ({"name": "\0"}, "name"),
}


@once
@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_a_key_is_refused(http: httpx.Client, home: str, case: str) -> None:
    asked, field = WRONG[case]
    problem = is_problem(http.post(home + "keys/", json=asked), 400, "invalid")
    assert [error["field"] for error in problem["errors"]] == [field]
    assert http.get(home + "keys/").json()["items"] == []


@once
def test_a_jwk_is_taken_as_it_is(service: Service, http: httpx.Client, home: str, namespace: str) -> None:
    jwk = jwt.algorithms.ECAlgorithm.to_jwk(PRIVATE["ES256"].public_key(), as_dict=True)
    answer = http.post(home + "keys/", json={"kind": "ES256", "public_key": jwk})
    with with_token(service, signed(answer.json())) as worker:
        assert stats(worker, namespace) == 200


@once
def test_a_key_ends_at_its_time(service: Service, http: httpx.Client, home: str, namespace: str) -> None:
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))
    with with_api_key(service, make(http, home, expires_at=until)) as worker:
        assert [stats(worker, namespace) for _ in range(3)] == [200] * 3
        service.until(lambda: stats(worker, namespace) == 401, 3, "it has ended")


@once
def test_there_are_at_most_a_hundred_live_keys(http: httpx.Client, home: str) -> None:
    keys = [make(http, home) for _ in range(100)]
    is_problem(http.post(home + "keys/", json={}), 409, "conflict")
    http.delete(f"{home}keys/{keys[0]['kid']}/")
    make(http, home)


@once
def test_manage_py_token_signs_with_a_namespaces_key(
    service: Service, http: httpx.Client, home: str, namespace: str
) -> None:
    def printed(kid: str) -> "subprocess.CompletedProcess[str]":
        command = [*MANAGE, "token", "--key", kid]
        return subprocess.run(command, env=service.env, cwd=ROOT, capture_output=True, text=True)

    with with_token(service, printed(make(http, home, kind="HS256")["kid"]).stdout.strip()) as worker:
        put(worker, namespace)
        is_problem(worker.get("/stats", params={"namespace": "default"}), 403, "forbidden")
    for refused in (make(http, home, kind="RS256")["kid"], make(http, home)["kid"], "nothing"):
        done = printed(refused)
        assert done.returncode == 1
        assert "HS256" in done.stderr
        assert "Traceback" not in done.stderr
