"""What each path of the control plane takes, answers, and refuses."""

from mqueue.api.control.urls import HOME, ROOT
from mqueue.api.openapi import control_examples as ex
from mqueue.api.openapi import control_rollups, control_work
from mqueue.api.openapi.control_parts import (
    ADMIN,
    CHANGING,
    OPERATOR,
    OWNER,
    VIEWER,
    Json,
    Record,
    change,
    delete,
    get,
    list_of,
)
from mqueue.api.openapi.operation import Operation
from mqueue.api.openapi.schemas import TEXT, ref
from mqueue.core import names
from mqueue.core.credentials import KID
from mqueue.core.errors import Conflict

NAMESPACE = Record("namespaces", "Namespace", ex.NAMESPACE, "NamespaceChange")
TOPIC = Record("topics", "Topic", ex.TOPIC, "TopicChange")
KEY = Record("keys", "Key", ex.KEY)
QUOTAS = Record("quotas", "Quotas", ex.QUOTAS, "QuotaChange")
MEMBER = Record("members", "Member", ex.MEMBER, "MemberChange")
AUDIT = Record("audit", "AuditEntry", ex.AUDIT)


MAKE_KEY = Operation(
    "make_key",
    "Make a key",
    ref("Key"),
    ex.MADE_KEY,
    "`secret` is shown this once: what `X-Api-Key` carries, or what HS256 signs with, in UTF-8 as it stands. For the "
    "other kinds send `public_key`, PEM or a JWK. To grant `*` takes `*`. At most 100 are live. " + ADMIN,
    body=ref("KeyRequest"),
    sent={"name": "mailer", "kind": "api_key", "scopes": ["dequeue"]},
    errors=(*CHANGING, Conflict),
    tag="keys",
    status=201,
)
MAKE_NAMESPACE = "To make it: " + OWNER + " To replace it: " + ADMIN
DESCRIBED: Json = {"description": "Mail"}
RECORDS: dict[str, dict[str, Operation]] = {
    ROOT: {"get": list_of(NAMESPACE, "Those that you may look at", "NamespacePage", VIEWER)},
    HOME: {
        "get": get(NAMESPACE, "One namespace", VIEWER),
        "put": change("put", NAMESPACE, "Make or replace it", DESCRIBED, MAKE_NAMESPACE, makes=True),
        "patch": change("patch", NAMESPACE, "Change it", DESCRIBED, ADMIN),
        "delete": delete(NAMESPACE, "Delete it, with its keys, quotas, members and settings", OWNER, force=True),
    },
    HOME + "topics/": {"get": list_of(TOPIC, "Topics by name", "TopicPage", VIEWER)},
    HOME + "topics/{topic}/": {
        "get": get(TOPIC, "A topic and its settings", VIEWER),
        "put": change("put", TOPIC, "Make it, or replace its settings", ex.TOPIC_CHANGE, OPERATOR, makes=True),
        "patch": change("patch", TOPIC, "Change some settings", {"visibility_ms": 60_000}, OPERATOR),
        "delete": delete(TOPIC, "Forget its settings, and list it no more", OPERATOR, force=True),
    },
    HOME + "keys/": {"get": list_of(KEY, "Keys, the newest first", "KeyPage", ADMIN), "post": MAKE_KEY},
    HOME + "keys/{kid}/": {
        "get": get(KEY, "One key, without its secret", ADMIN),
        "delete": delete(KEY, "Refuse it everywhere within two seconds", ADMIN),
    },
    HOME + "quotas/": {
        "get": get(QUOTAS, "The limits of the namespace", VIEWER),
        "put": change("put", QUOTAS, "Replace all", ex.QUOTAS, ADMIN),
        "patch": change("patch", QUOTAS, "Change some", {"max_in_flight": 500}, ADMIN),
    },
    HOME + "members/": {"get": list_of(MEMBER, "Members by name", "MemberPage", ADMIN)},
    HOME + "members/{user}/": {
        "get": get(MEMBER, "One member", ADMIN),
        "put": change("put", MEMBER, "Give a user a role", {"role": "operator"}, ADMIN, makes=True),
        "delete": delete(MEMBER, "Take the role away", ADMIN),
    },
    HOME + "audit/": {"get": list_of(AUDIT, "Who did what, the newest first", "AuditPage", ADMIN)},
}
OPERATIONS = RECORDS | control_work.OPERATIONS | control_rollups.OPERATIONS


def _named(name: str, example: str, pattern: str) -> Json:
    schema = TEXT | {"pattern": pattern.replace("\\Z", "$")}
    return {"name": name, "in": "path", "required": True, "schema": schema, "example": example}


PARAMETERS: dict[str, Json] = {
    "namespace": _named("namespace", "acme", names.NAMESPACE),
    "topic": _named("topic", "emails", names.TOPIC),
    "kid": _named("kid", ex.KEY["kid"], f"^{KID}$"),
    "job": _named("job", str(ex.JOB["id"]), r"^[0-9]{1,18}$"),
    "user": _named("user", "ada", r"^[\w.@+-]{1,150}$"),
}
