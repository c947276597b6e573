"""The control plane's records, over HTTP."""

import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.acceptance.calls import Json, die, get, is_problem, once, put, settle
from tests.acceptance.conftest import Services
from tests.acceptance.people import make_user, session
from tests.service import Service

pytestmark = once


@pytest.fixture
def home(http: httpx.Client, namespace: str) -> str:
    """The path of a namespace that is there."""
    path = f"/api/v1/namespaces/{namespace}/"
    assert http.put(path, json={}).status_code == 201
    return path


@pytest.fixture
def admin(service: Service, namespace: str) -> Iterator[httpx.Client]:
    """Of the namespace, and of nothing else."""
    with service.client(namespaces=[namespace], scopes=["admin"], subject="ada") as http:
        yield http


def audit_of(http: httpx.Client, home: str, **more: Any) -> list[Json]:
    answer = http.get(home + "audit/", params=more)
    assert answer.status_code == 200, answer.text
    found: list[Json] = answer.json()["items"]
    return found


def test_a_namespace_is_made_changed_listed_and_deleted(http: httpx.Client, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/"
    is_problem(http.get(path), 404, "namespace_not_found")
    made = http.put(path, json={"description": "mail"})
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    assert made.json() == {"name": namespace, "description": "mail", "created_at": made.json()["created_at"]}
    assert made.json()["created_at"].endswith("Z")
    assert http.get(path).json() == made.json()
    assert http.patch(path, json={}).json()["description"] == "mail"
    assert http.patch(path, json={"description": "post"}).json()["description"] == "post"
    assert http.put(path, json={}).json()["description"] == ""
    assert [one["name"] for one in http.get("/api/v1/namespaces/", params={"prefix": namespace}).json()["items"]] == [
        namespace
    ]
    gone = http.delete(path)
    assert (gone.status_code, gone.content) == (204, b"")
    is_problem(http.get(path), 404, "namespace_not_found")
    is_problem(http.delete(path), 404, "namespace_not_found")
    acts = [one["action"] for one in audit_of(http, path)]
    assert acts == ["namespace.delete", *["namespace.change"] * 3, "namespace.create"]


def test_a_namespace_with_messages_is_deleted_by_force_only(http: httpx.Client, home: str, namespace: str) -> None:
    die(http, namespace)
    is_problem(http.delete(home), 409, "not_empty")
    assert http.post("/dlq/delete", json={"namespace": namespace, "topic": "t", "all": True}).json() == {"deleted": 1}
    put(http, namespace)
    is_problem(http.delete(home), 409, "not_empty")
    (found,) = get(http, namespace)
    is_problem(http.delete(home), 409, "not_empty")
    settle(http, "ack", found)
    assert http.delete(home).status_code == 204
    http.put(home, json={})
    put(http, namespace)
    assert http.delete(home, params={"force": "true"}).status_code == 204


def test_a_message_makes_what_was_deleted_again(
    service: Service, http: httpx.Client, home: str, namespace: str
) -> None:
    path = home + "topics/t/"
    first = put(http, namespace)
    http.patch(path, json={"paused": True})
    assert http.delete(path, params={"force": "true"}).status_code == 204
    service.until(lambda: put(http, namespace) and http.get(path).status_code == 200, 3, "it is there again")
    assert http.get(path).json()["paused"] is False
    assert get(http, namespace)[0]["id"] == first  # nothing was lost meanwhile
    assert http.delete(home, params={"force": "true"}).status_code == 204
    service.until(lambda: put(http, namespace) and http.get(home).status_code == 200, 3, "it is there again")


def test_what_was_deleted_is_made_anew_with_nothing_set(http: httpx.Client, home: str, namespace: str) -> None:
    http.put(home + "topics/t/", json={"paused": True})
    http.put(home + "quotas/", json={"max_stored": 5})
    key = http.post(home + "keys/", json={}).json()
    assert http.delete(home).status_code == 204
    assert http.put(home, json={}).status_code == 201
    assert http.get(home + "topics/").json() == {"items": [], "next": None}
    is_problem(http.get(home + "topics/t/"), 404, "not_found")
    assert set(http.get(home + "quotas/").json().values()) == {None}
    assert http.get(home + f"keys/{key['kid']}/").json()["revoked_at"]
    again = http.put(home + "topics/t/", json={})
    assert again.status_code == 201
    assert again.json()["paused"] is False


DEFAULTS = {
    "visibility_ms": 30_000,
    "max_retries": 3,
    "retry": {"strategy": "exponential", "base_ms": 1000, "max_ms": 3_600_000, "jitter": 0.25},
    "retention_days": 7,
    "durability": "commit",
    "paused": False,
    "rate": None,
    "tracing": True,
}
SET = {
    "visibility_ms": 5000,
    "max_retries": 0,
    "retry": {"strategy": "linear", "base_ms": 5, "max_ms": 50, "jitter": 0.5},
    "retention_days": 30,
    "durability": "buffered",
    "paused": True,
    "rate": {"capacity": 100, "refill_per_s": 2.5},
    "tracing": False,
}


def settings_of(answer: httpx.Response) -> Json:
    assert answer.status_code in (200, 201), answer.text
    return {name: answer.json()[name] for name in DEFAULTS}


def test_a_topics_settings_are_set_changed_and_forgotten(http: httpx.Client, home: str) -> None:
    path = home + "topics/emails/"
    is_problem(http.get(path), 404, "not_found")
    is_problem(http.patch(path, json={"paused": True}), 404, "not_found")
    made = http.put(path, json={})
    assert made.status_code == 201
    assert settings_of(made) == settings_of(http.get(path)) == DEFAULTS
    assert settings_of(http.put(path, json=SET)) == settings_of(http.get(path)) == SET
    assert settings_of(http.patch(path, json={"paused": False})) == SET | {"paused": False}
    assert settings_of(http.patch(path, json={"rate": None, "visibility_ms": None})) == SET | {
        "paused": False,
        "rate": None,
        "visibility_ms": 30_000,
    }
    assert http.patch(path, json={"retry": {"base_ms": 7}}).json()["retry"] == SET["retry"] | {"base_ms": 7}  # type: ignore[operator]
    assert http.patch(path, json={"retry": {"strategy": None}}).json()["retry"]["strategy"] == "exponential"
    assert http.patch(path, json={"retry": None}).json()["retry"] == DEFAULTS["retry"]
    assert settings_of(http.put(path, json={"max_retries": 9, "more": 1})) == DEFAULTS | {"max_retries": 9}
    assert http.delete(path).status_code == 204
    is_problem(http.get(path), 404, "not_found")
    is_problem(http.delete(path), 404, "not_found")


def test_a_topic_with_messages_is_deleted_by_force_only(http: httpx.Client, home: str, namespace: str) -> None:
    put(http, namespace, "emails")
    path = home + "topics/emails/"
    assert settings_of(http.get(path)) == DEFAULTS  # made by its first message
    is_problem(http.delete(path), 409, "not_empty")
    assert http.delete(path, params={"force": "true"}).status_code == 204


def test_topics_are_listed_in_pages_and_filtered(http: httpx.Client, home: str) -> None:
    for name in ("a", "B", "a.1", "a_2", "z:9"):
        http.put(
            home + f"topics/{name}/", json={"paused": name == "B", "durability": "buffered" if name == "z:9" else None}
        )
    whole = [one["name"] for one in http.get(home + "topics/").json()["items"]]
    assert sorted(whole) == sorted(["a", "B", "a.1", "a_2", "z:9"])
    paged, after = [], ""
    while after is not None:
        page = http.get(home + "topics/", params={"limit": 2, "after": after}).json()
        assert len(page["items"]) <= 2
        paged += [one["name"] for one in page["items"]]
        after = page["next"]
    assert paged == whole

    def found(**wanted: Any) -> set[str]:
        return {one["name"] for one in http.get(home + "topics/", params=wanted).json()["items"]}

    assert found(prefix="a") == {"a", "a.1", "a_2"}
    assert found(prefix="a_") == {"a_2"}
    assert found(paused="true") == {"B"}
    assert found(paused="false") == set(whole) - {"B"}
    assert found(durability="buffered") == {"z:9"}
    assert found(durability="commit") == set(whole) - {"z:9"}
    for wrong in ({"limit": 0}, {"limit": 1001}, {"paused": "maybe"}, {"durability": "x"}, {"prefix": "\0"}):
        is_problem(http.get(home + "topics/", params=wrong), 400, "invalid")


def test_quotas_are_set_one_by_one_and_all_at_once(http: httpx.Client, home: str) -> None:
    path = home + "quotas/"
    none = dict.fromkeys(
        ("messages_per_minute", "bytes_per_minute", "max_stored", "max_in_flight", "max_topics", "weight")
    )
    assert http.get(path).json() == none
    assert http.patch(path, json={"max_stored": 10}).json() == none | {"max_stored": 10}
    assert http.patch(path, json={"max_in_flight": 3}).json() == none | {"max_stored": 10, "max_in_flight": 3}
    assert http.put(path, json={"messages_per_minute": 60}).json() == none | {"messages_per_minute": 60}
    assert http.get(path).json() == none | {"messages_per_minute": 60}
    assert http.patch(path, json={"messages_per_minute": None}).json() == none
    assert [one["action"] for one in audit_of(http, home, action="quotas.change")] == ["quotas.change"] * 4


def test_every_wrong_field_is_named(http: httpx.Client, home: str) -> None:
    wrong: Json = {
        "visibility_ms": 999,
        "max_retries": "3",
        "retry": {"base_ms": -1},
        "retention_days": 0,
        "durability": "sometimes",
        "paused": 1,
        "rate": {"capacity": 1},
        "tracing": "yes",
    }
    problem = is_problem(http.put(home + "topics/t/", json=wrong), 400, "invalid")
    fields = {error["field"] for error in problem["errors"]}
    assert fields == {
        "visibility_ms", "max_retries", "retry.base_ms", "retention_days", "durability", "paused", "rate", "tracing",
    }  # fmt: skip
    assert all(error["detail"] and error["index"] is None for error in problem["errors"])
    is_problem(http.get(home + "topics/t/"), 404, "not_found")
    for quota in (0, -1, 1.5, "1", True, 10**16, []):
        is_problem(http.put(home + "quotas/", json={"max_stored": quota}), 400, "invalid")
        is_problem(http.put(home + "quotas/", json={"weight": quota}), 400, "invalid")


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 100_000, b'{"a":' * 50_000, b"NaN"])
def test_garbage_is_a_bad_request(http: httpx.Client, home: str, body: bytes) -> None:
    json = {"content-type": "application/json"}
    is_problem(http.put(home + "topics/t/", content=body, headers=json), 400, "invalid")


@pytest.mark.parametrize("name", ["Not%20A%20Name", "-x", "%C3%A4", "a" * 64, "a%00b", "a%0A", "%FF"])
def test_no_namespace_can_have_a_wrong_name(http: httpx.Client, name: str) -> None:
    path = f"/api/v1/namespaces/{name}/"
    is_problem(http.put(path, json={}), 400, "invalid")
    for part in ("", "topics/", "topics/t/", "keys/", "quotas/", "members/", "audit/"):
        is_problem(http.get(path + part), 404, "namespace_not_found")


@pytest.mark.parametrize("name", ["Not%20A%20Name", "-x", "%C3%A4", "a" * 129, "a%00b"])
def test_no_topic_can_have_a_wrong_name(http: httpx.Client, home: str, name: str) -> None:
    is_problem(http.put(f"{home}topics/{name}/", json={}), 400, "invalid")
    is_problem(http.get(f"{home}topics/{name}/"), 404, "not_found")
    is_problem(http.get(f"{home}keys/{name}/"), 404, "not_found")
    is_problem(http.get(f"{home}members/{name}/"), 404, "not_found")


def test_methods_media_and_sizes_are_refused_as_on_the_data_plane(http: httpx.Client, home: str) -> None:
    answer = http.post(home, json={})
    is_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "DELETE, GET, HEAD, PATCH, PUT"
    is_problem(http.request("OPTIONS", home), 405, "method_not_allowed")
    assert http.head(home).content == b""
    form = {"content-type": "application/x-www-form-urlencoded"}
    is_problem(http.put(home, content="description=x", headers=form), 415, "unsupported_media_type")
    is_problem(http.put(home, json={"description": "x" * 300_000}), 413, "too_large")
    is_problem(http.put(home, json={"description": "x" * 1001}), 400, "invalid")
    is_problem(http.get("/api/v1/nothing/"), 404, "not_found")


def test_who_does_not_say_who_he_is_learns_nothing(service: Service, home: str) -> None:
    with httpx.Client(base_url=service.url) as nobody:
        for path in (home, home + "keys/", "/api/v1/namespaces/", home.replace("/t-", "/x-")):
            answer = nobody.get(path)
            is_problem(answer, 401, "unauthenticated")
            assert answer.headers["www-authenticate"] == "Bearer"
        is_problem(nobody.get(home, headers={"Authorization": "Bearer x.y.z"}), 401, "unauthenticated")
        is_problem(nobody.get(home, headers={"Authorization": "Basic YTpi"}), 401, "unauthenticated")
        is_problem(nobody.get(home, headers={"X-Api-Key": "mq_x"}), 401, "unauthenticated")
        is_problem(nobody.get(home, headers={"Cookie": "sessionid=x"}), 401, "unauthenticated")


def test_the_scope_admin_does_everything_but_make_and_delete_it(
    service: Service, http: httpx.Client, admin: httpx.Client, home: str, namespace: str
) -> None:
    assert admin.get(home).status_code == 200
    assert admin.put(home, json={"description": "x"}).status_code == 200
    assert admin.put(home + "topics/t/", json={}).status_code == 201
    assert admin.put(home + "quotas/", json={}).status_code == 200
    assert admin.get(home + "audit/").status_code == 200
    is_problem(admin.delete(home), 403, "forbidden")
    assert http.delete(home).status_code == 204
    is_problem(admin.put(home, json={}), 403, "forbidden")
    with service.client(namespaces=[namespace], scopes=["*"]) as owner:
        assert owner.put(home, json={}).status_code == 201
        assert owner.delete(home).status_code == 204
    for scopes in (["enqueue"], ["dequeue", "dlq"], [f"{namespace}x:admin"], ["other:*"]):
        with service.client(namespaces=["*"], scopes=scopes) as worker:
            is_problem(worker.get(home), 403, "forbidden")
            is_problem(worker.put(home, json={}), 403, "forbidden")


def test_a_list_has_what_a_token_may_look_at(service: Service, http: httpx.Client, home: str, namespace: str) -> None:
    other = f"{namespace}-x"
    http.put(f"/api/v1/namespaces/{other}/", json={})

    def listed(namespaces: list[str], scopes: list[str]) -> set[str]:
        with service.client(namespaces=namespaces, scopes=scopes) as some:
            items = some.get("/api/v1/namespaces/", params={"prefix": namespace}).json()["items"]
            return {one["name"] for one in items}

    assert listed(["*"], ["admin"]) == {namespace, other}
    assert listed([namespace], ["*"]) == {namespace}
    assert listed(["*"], [f"{other}:admin"]) == {other}
    assert listed([namespace], [f"{namespace}:*", f"{other}:*"]) == {namespace}
    with service.client(scopes=["enqueue"]) as worker:
        is_problem(worker.get("/api/v1/namespaces/"), 403, "forbidden")


def test_every_act_is_on_record_with_what_was_before(
    http: httpx.Client, admin: httpx.Client, home: str, namespace: str
) -> None:
    admin.put(home + "topics/t/", json={"paused": True})
    admin.patch(home + "topics/t/", json={"paused": False})
    admin.delete(home + "topics/t/")
    gone, changed, made, first = audit_of(admin, home)
    assert [one["action"] for one in (made, changed, gone)] == ["topic.create", "topic.change", "topic.delete"]
    assert {one["target"] for one in (made, changed, gone)} == {"t"}
    assert {(one["actor"], one["via"]) for one in (made, changed, gone)} == {("ada", "root key")}
    assert (made["before"], made["after"]["paused"]) == (None, True)
    assert (changed["before"]["paused"], changed["after"]["paused"]) == (True, False)
    assert gone["after"] is None
    assert (first["action"], first["actor"]) == ("namespace.create", "tester")
    assert gone["at"] >= changed["at"] >= made["at"]
    assert audit_of(admin, home, actor="tester") == [first]
    assert audit_of(admin, home, action="topic.delete") == [gone]
    assert audit_of(admin, home, until=made["at"]) == [first]
    assert audit_of(admin, home, since=gone["at"]) == [gone]
    page = admin.get(home + "audit/", params={"limit": 2}).json()
    assert (page["items"], page["next"]) == ([gone, changed], str(changed["id"]))
    assert admin.get(home + "audit/", params={"after": page["next"]}).json()["items"] == [made, first]
    is_problem(admin.patch(home + "topics/t/", json={}), 404, "not_found")
    is_problem(admin.put(home + "topics/t/", json={"paused": 3}), 400, "invalid")
    assert len(audit_of(admin, home)) == 4  # what changed nothing is not there


def test_a_user_is_made_a_member(http: httpx.Client, home: str, staff: tuple[str, str]) -> None:
    name, _ = staff
    path = home + f"members/{name}/"
    is_problem(http.get(path), 404, "not_found")
    is_problem(http.put(home + "members/nobody-at-all/", json={"role": "viewer"}), 404, "not_found")
    is_problem(http.put(path, json={}), 400, "invalid")
    is_problem(http.put(path, json={"role": "owner"}), 400, "invalid")
    made = http.put(path, json={"role": "viewer"})
    assert (made.status_code, made.json()["user"], made.json()["role"]) == (201, name, "viewer")
    assert http.put(path, json={"role": "operator"}).json()["role"] == "operator"
    assert [one["user"] for one in http.get(home + "members/").json()["items"]] == [name]
    assert http.get(home + "members/", params={"role": "admin"}).json()["items"] == []
    assert http.delete(path).status_code == 204
    assert [one["action"] for one in audit_of(http, home)][:3] == ["member.remove", "member.change", "member.add"]


@pytest.fixture(scope="module")
def staff(services: Services) -> tuple[str, str]:
    """A name and its password."""
    name = f"staff-{secrets.token_hex(3)}"
    return name, make_user(services["fast lane"], name)


ALLOWED = {
    "viewer": {"look"},
    "operator": {"look", "topics"},
    "admin": {"look", "topics", "keys", "quotas", "members", "audit"},
}


@pytest.mark.parametrize("role", [None, *ALLOWED])
def test_a_member_does_by_session_what_the_role_allows(
    service: Service, http: httpx.Client, home: str, staff: tuple[str, str], role: str | None
) -> None:
    name, password = staff
    if role:
        assert http.put(home + f"members/{name}/", json={"role": role}).status_code == 201
    with session(service, name, password) as person:
        answers = {
            "look": person.get(home),
            "topics": person.put(home + "topics/t/", json={"paused": True}),
            "keys": person.post(home + "keys/", json={}),
            "quotas": person.put(home + "quotas/", json={}),
            "members": person.get(home + "members/"),
            "audit": person.get(home + "audit/"),
            "delete": person.delete(home),
        }
        assert {act for act, answer in answers.items() if answer.status_code != 403} == ALLOWED.get(str(role), set())
        listed = {one["name"] for one in person.get("/api/v1/namespaces/").json()["items"]}
        assert (home.split("/")[-2] in listed) is bool(role)
        if role == "operator":
            made = audit_of(http, home, action="topic.create")
            assert [(one["actor"], one["via"]) for one in made] == [(name, "session")]


def test_a_session_without_its_csrf_token_changes_nothing(
    service: Service, http: httpx.Client, home: str, staff: tuple[str, str]
) -> None:
    name, password = staff
    http.put(home + f"members/{name}/", json={"role": "admin"})
    with session(service, name, password) as person:
        del person.headers["X-CSRFToken"]
        assert person.get(home).status_code == 200
        is_problem(person.put(home + "quotas/", json={"max_stored": 1}), 403, "forbidden")
    assert http.get(home + "quotas/").json()["max_stored"] is None


def test_a_superuser_does_everything_and_who_is_no_staff_nothing(service: Service, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/"
    name = f"root-{secrets.token_hex(3)}"
    with session(service, name, make_user(service, name, is_superuser=True)) as person:
        assert person.put(path, json={}).status_code == 201
        assert person.delete(path).status_code == 204
