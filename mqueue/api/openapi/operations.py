"""What each path and method takes, answers, and refuses."""

from typing import Any

from mqueue.api.openapi import examples as ex
from mqueue.api.openapi.operation import ASKING, SENDING, Operation
from mqueue.api.openapi.schemas import ID, array, one, one_or_many, record, ref
from mqueue.core.errors import Leased, NamespaceNotFound, NotFound, NotLeased, QuotaExceeded, StaleReceipt
from mqueue.core.messages import MAX_BATCH, MAX_SETTLES

Json = dict[str, Any]
COUNT: Json = {"type": "integer", "minimum": 0}


def _settle(verb: str, summary: str, kind: str, answer: str, state: Json, *, description: str = "") -> Operation:
    shown = {"id": ex.ID} | state
    return Operation(
        verb,
        summary,
        {"anyOf": [ref(answer), array({"anyOf": [ref(answer), ref("Failed")]})]},
        shown,
        description + " One object answers one, an array an array in its order. Scope `dequeue`.",
        body=one_or_many(kind, MAX_SETTLES, least=0),
        sent=ex.LEASED,
        errors=(*SENDING, NotLeased, StaleReceipt),
    )


DUPLICATES: Json = {"Mqueue-Duplicates": {"description": "How many were there already.", "schema": COUNT}}
DELIVERED = array(ref("Delivered"))
CANCELLED = record("Cancelled", {"id": ID, "state": {"const": "cancelled"}})
MOVED = record("Moved", {"id": ID, "state": {"enum": ["ready", "scheduled"]}})
LIVE = record("Live", {"status": {"const": "OK"}})
CHOSEN = "One by `id`, many by `ids`, or all of the topic; those that are not dead are skipped. Scope `dlq`."
BY_KEY = "By `idempotency_key`, or the head of a topic; one of the two is needed. Any scope of the namespace."

OPERATIONS: dict[str, dict[str, Operation]] = {
    "/enqueue": {
        "post": Operation(
            "enqueue",
            "Add messages",
            array(ID),
            [ex.ID],
            "One, or an array. The ids come in the order of the request, all of them committed; 202 where one went to "
            "a topic that is buffered: it is logged, and will be. Scope `enqueue`.",
            body=one_or_many("Message", MAX_BATCH),
            sent=ex.EXAMPLE,
            errors=(*SENDING, NamespaceNotFound, QuotaExceeded),
            headers=DUPLICATES,
            also=(202,),
        )
    },
    "/dequeue": {
        "get": Operation(
            "dequeue", "Lease what is due, in order", DELIVERED, [ex.DELIVERED], "Scope `dequeue`.", query="Dequeue"
        ),
        "post": Operation(
            "dequeue_by_body",
            "Lease what is due, in order",
            DELIVERED,
            [ex.DELIVERED],
            "Scope `dequeue`.",
            body=ref("Dequeue"),
            sent=ex.PLACE,
            errors=SENDING,
        ),
    },
    "/ack": {"post": _settle("ack", "Settle what is leased", "Settle", "Acked", {"state": "acked"})},
    "/nack": {
        "post": _settle(
            "nack",
            "Say that it failed",
            "Nack",
            "Nacked",
            {"state": "retrying", "next_attempt_at": ex.LATER},
            description="It comes again after its backoff, or is dead.",
        )
    },
    "/extend": {
        "post": _settle(
            "extend",
            "Move the deadline of a lease",
            "Extend",
            "Extended",
            {"state": "extended", "lease_expires_at": ex.LATER},
            description="The receipt stays.",
        )
    },
    "/release": {
        "post": _settle(
            "release",
            "Give back",
            "Settle",
            "Released",
            {"state": "released"},
            description="At its old place.",
        )
    },
    "/dlq": {
        "get": Operation(
            "dead_letters",
            "Page through dead letters",
            array(ref("DeadLetter")),
            [ex.DEAD],
            "Ascending by id. A page stops at 16 MiB of payload: go on until one is empty. Scope `dlq`.",
            query="DeadPage",
            tag="dead letters",
        )
    },
    "/dlq/delete": {
        "post": Operation(
            "delete_dead",
            "Delete dead letters",
            one("deleted", COUNT),
            {"deleted": 1},
            CHOSEN,
            body=ref("DeadChoice"),
            sent=ex.PLACE | {"all": True},
            errors=SENDING,
            tag="dead letters",
        )
    },
    "/dlq/replay": {
        "post": Operation(
            "replay_dead",
            "Let dead letters live again",
            one("replayed", COUNT),
            {"replayed": 1},
            CHOSEN,
            body=ref("DeadChoice"),
            sent=ex.PLACE | {"id": ex.ID},
            errors=SENDING,
            tag="dead letters",
        )
    },
    "/messages": {
        "get": Operation(
            "find", "Find or peek", array(ref("Looked")), [ex.LOOKED], BY_KEY, query="Find", tag="messages"
        )
    },
    "/messages/{id}": {
        "get": Operation(
            "look",
            "One message and its state",
            ref("Looked"),
            ex.LOOKED,
            "Any scope of the namespace.",
            query="Place",
            errors=(*ASKING, NotFound),
            tag="messages",
        ),
        "delete": Operation(
            "cancel",
            "Cancel what waits",
            CANCELLED,
            {"id": ex.ID, "state": "cancelled"},
            "Scope `enqueue`.",
            query="Place",
            errors=(*ASKING, NotFound, Leased),
            tag="messages",
        ),
        "patch": Operation(
            "move",
            "Give what waits another place",
            MOVED,
            {"id": ex.ID, "state": "ready"},
            "A new priority alone keeps the time. Scope `enqueue`.",
            body=ref("Move"),
            sent=ex.PLACE | {"priority": 1},
            errors=(*SENDING, NotFound, Leased),
            tag="messages",
        ),
    },
    "/messages/{id}/trace": {
        "get": Operation(
            "trace",
            "What happened to a message",
            one("events", array(ref("Event"))),
            ex.EVENTS,
            "In time order. Any scope of the namespace.",
            query="Place",
            errors=(*ASKING, NotFound),
            tag="messages",
        )
    },
    "/stats": {
        "get": Operation(
            "stats",
            "Counts of topics",
            one("topics", array(ref("Depth"))),
            ex.STATS,
            "Ascending by name, 1,000 a page: `after` is the last name. Any scope of the namespace.",
            query="StatsPage",
            tag="messages",
        )
    },
}
METRICS: Json = {
    "operationId": "metrics",
    "summary": "Counters and gauges for Prometheus",
    "description": "Of every namespace. Scope `admin`, or `*` in a token for every namespace.",
    "tags": ["health"],
    "security": [{"token": []}],
    "responses": {
        "200": {"description": "Prometheus' text format", "content": {"text/plain": {"schema": {"type": "string"}}}},
        "401": {"$ref": "#/components/responses/Unauthenticated"},
        "403": {"$ref": "#/components/responses/Forbidden"},
    },
}
OPEN: dict[str, tuple[Operation, Json]] = {  # no token; and what a 503 says
    "/health": (Operation("health", "What works and what does not", ref("Health"), ex.HEALTH), ref("Health")),
    "/live": (Operation("live", "The process runs", LIVE, {"status": "OK"}), {}),
    "/ready": (
        Operation("ready", "It can serve", LIVE, {"status": "OK"}),
        record("Starting", {"status": {"const": "starting"}}),
    ),
}
