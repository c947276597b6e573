"""What each path of the control plane takes, answers, and refuses."""

from typing import Any, NamedTuple

from mqueue.api.control.urls import HOME, ROOT
from mqueue.api.openapi import control_examples as ex
from mqueue.api.openapi.operation import Operation
from mqueue.api.openapi.schemas import TEXT, ref
from mqueue.core import names
from mqueue.core.credentials import KID
from mqueue.core.errors import (
    Conflict,
    ControlUnavailable,
    Forbidden,
    Invalid,
    NamespaceNotFound,
    NotEmpty,
    TooLarge,
    Unauthenticated,
    UnsupportedMedia,
)

Json = dict[str, Any]
ASKING = (Unauthenticated, Forbidden, ControlUnavailable)
CHANGING = (*ASKING, Invalid, NamespaceNotFound, TooLarge, UnsupportedMedia)
ADMIN, OWNER = "Scope `admin`; or the role admin.", "Scope `*`; or a superuser."
VIEWER, OPERATOR = "Scope `admin`; or the role viewer.", "Scope `admin`; or the role operator."
FORCE = "`409 not_empty` while there are messages or dead letters, unless `force`: then they stay where they are. "


class Record(NamedTuple):
    """What a path is about: the type of its answers, one of them, and the type of its changes."""

    tag: str
    kind: str
    example: Json
    change: str = ""


NAMESPACE = Record("namespaces", "Namespace", ex.NAMESPACE, "NamespaceChange")
TOPIC = Record("topics", "Topic", ex.TOPIC, "TopicChange")
KEY = Record("keys", "Key", ex.KEY)
QUOTAS = Record("quotas", "Quotas", ex.QUOTAS, "QuotaChange")
MEMBER = Record("members", "Member", ex.MEMBER, "MemberChange")
AUDIT = Record("audit", "AuditEntry", ex.AUDIT)


def _list(of: Record, summary: str, query: str, role: str) -> Operation:
    fields = {"items": {"type": "array", "items": ref(of.kind)}, "next": {"type": ["string", "null"]}}
    answer = {"type": "object", "properties": fields, "required": ["items", "next"]}
    shown = {"items": [of.example], "next": None}
    text = "In pages: `next` is the `after` of the page that follows, null on the last one. " + role
    errors = (*ASKING, Invalid) if of is NAMESPACE else (*ASKING, Invalid, NamespaceNotFound)
    return Operation(f"list_{of.tag}", summary, answer, shown, text, query=query, errors=errors, tag=of.tag)


def _get(of: Record, summary: str, role: str) -> Operation:
    errors = (*ASKING, NamespaceNotFound)
    return Operation(f"get_{of.kind.lower()}", summary, ref(of.kind), of.example, role, errors=errors, tag=of.tag)


def _change(verb: str, of: Record, summary: str, sent: Json, role: str, *, makes: bool = False) -> Operation:
    return Operation(
        f"{verb}_{of.kind.lower()}",
        summary,
        ref(of.kind),
        of.example,
        role,
        body=ref(of.change),
        sent=sent,
        errors=CHANGING,
        tag=of.tag,
        also=(201,) if makes else (),
    )


def _delete(of: Record, summary: str, role: str, *, force: bool = False) -> Operation:
    return Operation(
        f"delete_{of.kind.lower()}",
        summary,
        {},
        None,
        (FORCE if force else "") + role,
        query="Deletion" if force else "",
        errors=(*ASKING, NamespaceNotFound, *((Invalid, NotEmpty) if force else ())),
        tag=of.tag,
        status=204,
    )


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
OPERATIONS: dict[str, dict[str, Operation]] = {
    ROOT: {"get": _list(NAMESPACE, "Those that you may look at", "NamespacePage", VIEWER)},
    HOME: {
        "get": _get(NAMESPACE, "One namespace", VIEWER),
        "put": _change("put", NAMESPACE, "Make or replace it", DESCRIBED, MAKE_NAMESPACE, makes=True),
        "patch": _change("patch", NAMESPACE, "Change it", DESCRIBED, ADMIN),
        "delete": _delete(NAMESPACE, "Delete it, with its keys, quotas, members and settings", OWNER, force=True),
    },
    HOME + "topics/": {"get": _list(TOPIC, "Topics by name", "TopicPage", VIEWER)},
    HOME + "topics/{topic}/": {
        "get": _get(TOPIC, "A topic and its settings", VIEWER),
        "put": _change("put", TOPIC, "Make it, or replace its settings", ex.TOPIC_CHANGE, OPERATOR, makes=True),
        "patch": _change("patch", TOPIC, "Change some settings", {"visibility_ms": 60_000}, OPERATOR),
        "delete": _delete(TOPIC, "Forget its settings, and list it no more", OPERATOR, force=True),
    },
    HOME + "keys/": {"get": _list(KEY, "Keys, the newest first", "KeyPage", ADMIN), "post": MAKE_KEY},
    HOME + "keys/{kid}/": {
        "get": _get(KEY, "One key, without its secret", ADMIN),
        "delete": _delete(KEY, "Refuse it everywhere within two seconds", ADMIN),
    },
    HOME + "quotas/": {
        "get": _get(QUOTAS, "The limits of the namespace", VIEWER),
        "put": _change("put", QUOTAS, "Replace all", ex.QUOTAS, ADMIN),
        "patch": _change("patch", QUOTAS, "Change some", {"max_in_flight": 500}, ADMIN),
    },
    HOME + "members/": {"get": _list(MEMBER, "Members by name", "MemberPage", ADMIN)},
    HOME + "members/{user}/": {
        "get": _get(MEMBER, "One member", ADMIN),
        "put": _change("put", MEMBER, "Give a user a role", {"role": "operator"}, ADMIN, makes=True),
        "delete": _delete(MEMBER, "Take the role away", ADMIN),
    },
    HOME + "audit/": {"get": _list(AUDIT, "Who did what, the newest first", "AuditPage", ADMIN)},
}


def _named(name: str, example: str, pattern: str) -> Json:
    schema = TEXT | {"pattern": pattern.replace("\\Z", "$")}
    return {"name": name, "in": "path", "required": True, "schema": schema, "example": example}


PARAMETERS: dict[str, Json] = {
    "namespace": _named("namespace", "acme", names.NAMESPACE),
    "topic": _named("topic", "emails", names.TOPIC),
    "kid": _named("kid", ex.KEY["kid"], f"^{KID}$"),
    "user": _named("user", "ada", r"^[\w.@+-]{1,150}$"),
}
