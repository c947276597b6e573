"""Tenants' records in the Django admin: what a role shows and changes, keys, and the audit log."""

import html
import re
import secrets

import httpx
import psycopg
import pytest

from tests.acceptance.calls import Json, once
from tests.acceptance.conftest import SEEDED
from tests.acceptance.people import make_user, session
from tests.service import Service

pytestmark = once
KEYS, TOPICS, HOMES = "/admin/tenants/key/", "/admin/tenants/topic/", "/admin/tenants/namespace/"


def is_listed(browser: httpx.Client, listed: str, text: str) -> bool:
    page = browser.get(listed, params={"q": text})
    assert page.status_code == 200
    return re.search(rf">\s*{re.escape(text)}\s*<", page.text) is not None


def page_of(browser: httpx.Client, listed: str, text: str) -> str:
    """The path of the change page of what a list shows under a name."""
    found = browser.get(listed, params={"q": text})
    assert found.status_code == 200
    match = re.search(rf'href="({listed}\d+/change/)[^"]*"[^>]*>\s*{re.escape(text)}', found.text)
    assert match, found.text
    return match[1]


def filled(page: httpx.Response, **changes: str) -> dict[str, str]:
    """The page's form as a browser would send it, with these changes."""
    form = {}
    for tag in re.findall(r"<input\b[^>]*>", page.text):
        fields = {name: html.unescape(value) for name, value in re.findall(r'([\w-]+)="([^"]*)"', tag)}
        is_off = fields.get("type") in ("checkbox", "radio") and not re.search(r"\bchecked\b", tag)
        if "name" in fields and not is_off and not fields["name"].startswith("_"):
            form[fields["name"]] = fields.get("value", "")
    for tag, name, inner in re.findall(r'(<select\b[^>]*name="([^"]+)"[^>]*>)(.*?)</select>', page.text, re.DOTALL):
        if re.search(r"\bmultiple\b", tag):
            continue
        chosen = re.search(r'<option value="([^"]*)"[^>]*\bselected', inner)
        form[name] = chosen[1] if chosen else ""
    return {name: value for name, value in form.items() if "__prefix__" not in name} | {"_save": "Save"} | changes


def save(browser: httpx.Client, path: str, **changes: str) -> httpx.Response:
    page = browser.get(path)
    assert page.status_code == 200, page.text
    return browser.post(path, data=filled(page, **changes))


def audit_of(http: httpx.Client, home: str) -> list[Json]:
    found: list[Json] = http.get(home + "audit/").json()["items"]
    return found


def test_quotas_are_edited_in_place(
    browser: httpx.Client, http: httpx.Client, home: str, namespace: str, root: tuple[str, str]
) -> None:
    path = page_of(browser, HOMES, namespace)
    done = save(browser, path, **{"quota-0-max_stored": "500", "description": "Mail"})
    assert done.url.path == HOMES, done.text
    assert http.get(home + "quotas/").json()["max_stored"] == 500
    assert http.get(home).json()["description"] == "Mail"
    entry = audit_of(http, home)[0]
    assert (entry["action"], entry["actor"], entry["via"]) == ("namespace.change", root[0], "session")
    assert (entry["before"]["quotas"]["max_stored"], entry["after"]["quotas"]["max_stored"]) == (None, 500)
    assert save(browser, path, **{"quota-0-max_stored": ""}).url.path == HOMES
    assert http.get(home + "quotas/").json()["max_stored"] is None
    count = len(audit_of(http, home))
    assert save(browser, path).url.path == HOMES  # nothing changed
    assert len(audit_of(http, home)) == count
    assert save(browser, path, **{"quota-0-max_stored": "0"}).url.path == path  # no quota


def test_a_quota_of_the_environment_stays_when_another_is_set(browser: httpx.Client, http: httpx.Client) -> None:
    home = f"/api/v1/namespaces/{SEEDED}/"
    assert http.put(home, json={}).is_success
    path = page_of(browser, HOMES, SEEDED)
    assert save(browser, path, description="Mail").url.path == HOMES  # no quota is touched
    assert save(browser, path, **{"quota-0-weight": "3"}).url.path == HOMES
    quotas = http.get(home + "quotas/").json()
    assert (quotas["messages_per_minute"], quotas["weight"]) == (77, 3)
    assert save(browser, path, **{"quota-0-messages_per_minute": ""}).url.path == HOMES
    assert http.get(home + "quotas/").json()["messages_per_minute"] is None


def test_members_are_added_and_removed(
    browser: httpx.Client, http: httpx.Client, home: str, namespace: str, staff: tuple[str, str]
) -> None:
    path = page_of(browser, HOMES, namespace)
    (number,) = re.findall(rf'<option value="(\d+)">\s*{staff[0]}', browser.get(path).text)[:1]
    added = {"members-TOTAL_FORMS": "1", "members-0-user": number, "members-0-role": "operator", "members-0-id": ""}
    assert save(browser, path, **added).url.path == HOMES
    assert http.get(home + f"members/{staff[0]}/").json()["role"] == "operator"
    assert save(browser, path, **{"members-0-DELETE": "on"}).url.path == HOMES
    assert http.get(home + "members/").json()["items"] == []
    removed = audit_of(http, home)[0]
    assert [one["user"] for one in removed["before"]["members"]] == [staff[0]]
    assert removed["after"]["members"] == []


def test_a_topics_settings_are_edited_in_place(
    browser: httpx.Client, http: httpx.Client, home: str, namespace: str
) -> None:
    topic = f"topic-{secrets.token_hex(4)}"
    http.post("/enqueue", json={"namespace": namespace, "topic": topic, "body": 1})
    path = page_of(browser, TOPICS, topic)
    done = save(browser, path, **{"settings-0-paused": "on", "settings-0-visibility_ms": "5000"})
    assert done.url.path == TOPICS, done.text
    found = http.get(home + f"topics/{topic}/").json()
    assert (found["paused"], found["visibility_ms"], found["max_retries"]) == (True, 5000, 3)
    entry = audit_of(http, home)[0]
    assert (entry["action"], entry["before"]["paused"], entry["after"]["paused"]) == ("topic.change", False, True)
    for wrong in (
        {"settings-0-visibility_ms": "5"},
        {"settings-0-rate_capacity": "5"},
        {"settings-0-retry_jitter": "2"},
    ):
        assert save(browser, path, **wrong).url.path == path
    assert browser.get(f"{TOPICS}add/").status_code == 403
    assert browser.get(path.replace("change", "delete")).status_code == 403


def make_in_admin(browser: httpx.Client, namespace: str, **fields: str) -> httpx.Response:
    page = browser.get(f"{KEYS}add/")
    (number,) = re.findall(rf'<option value="(\d+)">\s*{namespace}\s*<', page.text)
    return browser.post(f"{KEYS}add/", data=filled(page, namespace=number, **fields))


def test_a_key_is_made_shown_once_and_revoked(
    service: Service, browser: httpx.Client, http: httpx.Client, home: str, namespace: str
) -> None:
    made = make_in_admin(browser, namespace, name="mailer", kind="api_key", scopes="enqueue")
    assert made.status_code == 200
    assert "no-store" in made.headers["cache-control"]
    (secret,) = re.findall(r"mq_[0-9a-f]{16}_[\w-]{43}", made.text)
    kid = secret.split("_")[1]
    assert http.get(f"{home}keys/{kid}/").json()["scopes"] == ["enqueue"]
    with httpx.Client(base_url=service.url, headers={"X-Api-Key": secret}) as worker:
        message = {"namespace": namespace, "topic": "t", "body": 1}
        assert worker.post("/enqueue", json=message).status_code == 200
        listed = browser.get(KEYS, params={"q": kid})
        path = page_of(browser, KEYS, kid)
        for page in (listed, browser.get(path)):
            assert "mailer" in page.text
            assert secret not in page.text
        (number,) = re.findall(r"/(\d+)/", path)
        chosen = {"action": "revoke", "_selected_action": number, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
        asked = browser.post(KEYS, data=chosen)
        assert "There is no way back" in asked.text
        assert worker.post("/enqueue", json=message).status_code == 200
        assert "refused everywhere" in browser.post(KEYS, data=chosen | {"confirmed": "yes"}).text
        service.until(lambda: worker.post("/enqueue", json=message).status_code == 401, 2, "it is refused")
    assert [one["action"] for one in audit_of(http, home)][:2] == ["key.revoke", "key.create"]
    assert secret not in http.get(home + "audit/").text


def test_what_cannot_be_a_key_is_said_on_the_page(
    browser: httpx.Client, http: httpx.Client, home: str, namespace: str
) -> None:
    for fields, said in (
        ({"kind": "RS256", "public_key": "x"}, "neither PEM"),
        ({"kind": "HS256", "public_key": "x"}, "has no use"),
        ({"kind": "api_key", "expires_at_0": "2020-01-01", "expires_at_1": "00:00:00"}, "in the past"),
    ):
        page = make_in_admin(browser, namespace, scopes="enqueue", **fields)
        assert said in page.text
        assert page.status_code < 500
    assert http.get(home + "keys/").json()["items"] == []


def test_a_namespace_that_was_deleted_is_made_again(
    browser: httpx.Client, http: httpx.Client, home: str, namespace: str
) -> None:
    assert http.delete(home).status_code == 204
    assert not is_listed(browser, HOMES, namespace)
    assert save(browser, f"{HOMES}add/", name=namespace).url.path == HOMES
    assert http.get(home).status_code == 200
    assert audit_of(http, home)[0]["action"] == "namespace.create"


def test_the_audit_log_is_read_and_not_written(browser: httpx.Client, home: str, namespace: str) -> None:
    listed = browser.get("/admin/tenants/auditentry/", params={"q": namespace})
    assert "namespace.create" in listed.text
    (path,) = set(re.findall(r'href="(/admin/tenants/auditentry/\d+/change/)', listed.text))
    entry = browser.get(path)
    assert f"&quot;name&quot;: &quot;{namespace}&quot;" in entry.text
    assert browser.post(path, data=filled(entry)).status_code == 403
    assert browser.get(path.replace("change", "delete")).status_code == 403
    assert browser.get("/admin/tenants/auditentry/add/").status_code == 403


def test_what_is_done_to_accounts_is_on_record_too(service: Service, browser: httpx.Client) -> None:
    name, password = f"new-{secrets.token_hex(3)}", secrets.token_urlsafe(16)
    users, log = "/admin/auth/user/", "/admin/tenants/auditentry/"
    fields = {"username": name, "password1": password, "password2": password, "usable_password": "true"}
    made = save(browser, f"{users}add/", **fields)
    assert re.fullmatch(rf"{users}\d+/change/", made.url.path), made.text
    assert save(browser, made.url.path, is_staff="on").url.path == users
    again = {"password1": password + "x", "password2": password + "x", "usable_password": "true"}
    assert save(browser, made.url.path.replace("change", "password"), **again).status_code == 200
    gone = browser.get(made.url.path.replace("change", "delete"))
    assert browser.post(gone.url, data=filled(gone, post="yes")).url.path == users
    assert name in browser.get(log, params={"q": name}).text
    with psycopg.connect(service.env["CONTROL_DATABASE_URL"]) as control:
        noted = control.execute("SELECT action, a::text FROM audit a WHERE target = %s ORDER BY id", [name]).fetchall()
    assert [action for action, _ in noted] == [f"account.{act}" for act in ("create", "change", "password", "delete")]
    assert not any(password in text for _, text in noted)


def account_log(service: Service, name: str) -> list[tuple[str, str, Json, Json]]:
    with psycopg.connect(service.env["CONTROL_DATABASE_URL"]) as control:
        return control.execute(
            "SELECT action, actor, before, after FROM audit WHERE target = %s ORDER BY id", [name]
        ).fetchall()


def page_of_person(service: Service, name: str) -> str:
    with psycopg.connect(service.env["CONTROL_DATABASE_URL"]) as control:
        row = control.execute("SELECT id FROM auth_user WHERE username = %s", [name]).fetchone()
    assert row
    return f"/admin/auth/user/{row[0]}/change/"


def test_a_permission_that_is_given_to_a_person_is_on_record(service: Service, browser: httpx.Client) -> None:
    name = f"p-{secrets.token_hex(3)}"
    make_user(service, name)
    with psycopg.connect(service.env["CONTROL_DATABASE_URL"]) as control:
        row = control.execute(
            "SELECT p.id FROM auth_permission p JOIN django_content_type c ON c.id = p.content_type_id"
            " WHERE (c.app_label, p.codename) = ('auth', 'add_user')"
        ).fetchone()
    assert row
    assert save(browser, page_of_person(service, name), user_permissions=str(row[0])).url.path == "/admin/auth/user/"
    (noted,) = account_log(service, name)
    assert noted[0] == "account.change"
    assert (noted[2]["permissions"], noted[3]["permissions"]) == ([], ["auth.add_user"])


def test_a_person_who_changes_his_own_password_is_on_record(service: Service) -> None:
    name = f"p-{secrets.token_hex(3)}"
    password, other, at = make_user(service, name), secrets.token_urlsafe(16), "/admin/password_change/"
    fields = {"old_password": "wrong", "new_password1": other, "new_password2": other}
    with session(service, name, password) as person:
        assert save(person, at, **fields).url.path == at
        assert account_log(service, name) == []
        assert save(person, at, **fields | {"old_password": password}).url.path == f"{at}done/"
        assert person.get("/admin/").status_code == 200
    assert account_log(service, name) == [("account.password", name, None, None)]
    with session(service, name, other):
        pass
    with httpx.Client(base_url=service.url) as nobody:
        assert nobody.get(at).headers["location"].startswith("/admin/login/")


def test_roles_that_end_with_an_account_are_on_record_where_they_were_held(
    service: Service, browser: httpx.Client, http: httpx.Client, home: str, root: tuple[str, str]
) -> None:
    name = f"p-{secrets.token_hex(3)}"
    make_user(service, name)
    assert http.put(f"{home}members/{name}/", json={"role": "operator"}).is_success
    gone = browser.get(page_of_person(service, name).replace("change", "delete"))
    assert browser.post(gone.url, data=filled(gone, post="yes")).url.path == "/admin/auth/user/"
    removed = audit_of(http, home)[0]
    assert (removed["action"], removed["target"], removed["actor"]) == ("member.remove", name, root[0])
    assert (removed["before"]["role"], removed["after"]) == ("operator", None)


ROLES = {
    None: (404, 404, 403),
    "viewer": ("look", "look", 403),
    "operator": ("look", "change", 403),
    "admin": ("change", "change", 200),
}


@pytest.mark.parametrize("role", ROLES)
def test_staff_see_and_change_what_their_role_allows(
    service: Service,
    browser: httpx.Client,
    http: httpx.Client,
    home: str,
    namespace: str,
    staff: tuple[str, str],
    role: str | None,
) -> None:
    topic = f"topic-{secrets.token_hex(4)}"
    http.put(home + f"topics/{topic}/", json={})
    key = http.post(home + "keys/", json={"name": f"k-{topic}"}).json()
    pages = {"namespace": page_of(browser, HOMES, namespace), "topic": page_of(browser, TOPICS, topic)}
    pages["key"] = page_of(browser, KEYS, key["kid"])
    if role:
        http.put(home + f"members/{staff[0]}/", json={"role": role})
    of_home, of_topic, of_keys = ROLES[role]
    with session(service, *staff) as person:
        for name, wanted in (("namespace", of_home), ("topic", of_topic)):
            page = person.get(pages[name])
            if wanted == 404:
                assert page.url.path == "/admin/"  # as for what does not exist
                continue
            assert page.status_code == 200
            assert ('name="_save"' in page.text) is (wanted == "change")
            if wanted == "look":
                assert person.post(pages[name], data=filled(page)).status_code == 403
        seen = person.get(KEYS, params={"q": key["kid"]}).text
        assert (f"k-{topic}" in seen) is (role == "admin")
        assert person.get(f"{KEYS}add/").status_code == of_keys
        assert person.get(f"{HOMES}add/").status_code == 403
        assert is_listed(person, TOPICS, topic) is bool(role)
        trail = person.get("/admin/tenants/auditentry/", params={"q": namespace}).text
        assert ("topic.create" in trail) is (role == "admin")
        assert person.get("/admin/auth/user/").status_code == 403
        if role is None:
            assert namespace not in person.get(KEYS).text + person.get(TOPICS).text + person.get(HOMES).text
    if role:
        http.delete(home + f"members/{staff[0]}/")
