"""What operations of the control plane have in common, and how each kind of them is described."""

from typing import Any, NamedTuple

from mqueue.api.openapi.operation import Operation
from mqueue.api.openapi.schemas import ref
from mqueue.core.errors import (
    ControlUnavailable,
    Forbidden,
    Invalid,
    NamespaceNotFound,
    NotEmpty,
    RateLimited,
    TooLarge,
    Unauthenticated,
    UnsupportedMedia,
)

Json = dict[str, Any]
ASKING = (Unauthenticated, Forbidden, RateLimited, ControlUnavailable)
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


def list_of(of: Record, summary: str, query: str, role: str) -> Operation:
    fields = {"items": {"type": "array", "items": ref(of.kind)}, "next": {"type": ["string", "null"]}}
    answer = {"type": "object", "properties": fields, "required": ["items", "next"]}
    shown = {"items": [of.example], "next": None}
    text = "In pages: `next` is the `after` of the page that follows, null on the last one. " + role
    errors = (*ASKING, Invalid) if of.kind == "Namespace" else (*ASKING, Invalid, NamespaceNotFound)
    return Operation(f"list_{of.tag}", summary, answer, shown, text, query=query, errors=errors, tag=of.tag)


def get(of: Record, summary: str, role: str) -> Operation:
    errors = (*ASKING, NamespaceNotFound)
    return Operation(f"get_{of.kind.lower()}", summary, ref(of.kind), of.example, role, errors=errors, tag=of.tag)


def change(verb: str, of: Record, summary: str, sent: Json, role: str, *, makes: bool = False) -> Operation:
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


def delete(of: Record, summary: str, role: str, *, force: bool = False) -> Operation:
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
