"""Schemas of requests and answers: what the types say, and what only the code behind them checks."""

import json
from typing import Any

import msgspec

from mqueue.core import messages
from tenants import job_records, records, rollup_records, usage_records

Json = dict[str, Any]
REF = "#/components/schemas/{name}"
TYPES = (
    messages.Message,
    messages.Dequeue,
    messages.Settle,
    messages.Nack,
    messages.Extend,
    messages.DeadChoice,
    messages.DeadPage,
    messages.Find,
    messages.Move,
    messages.Place,
    messages.StatsPage,
    messages.Delivered,
    messages.DeadLetter,
    messages.Looked,
    messages.Event,
    messages.Depth,
)
CONTROL = (records, job_records, usage_records, rollup_records)
TEXT: Json = {"type": "string"}
WHOLE: Json = {"type": "integer"}
TIME: Json = {"type": "string", "format": "date-time"}
ID: Json = WHOLE | {"minimum": 0, "exclusiveMaximum": 2**53}


def ref(name: str) -> Json:
    return {"$ref": REF.format(name=name)}


def array(items: Json, **more: Any) -> Json:
    return {"type": "array", "items": items} | more


def one_or_many(name: str, most: int, least: int = 1) -> Json:
    return {"anyOf": [ref(name), array(ref(name), minItems=least, maxItems=most)]}


def record(title: str, fields: Json, optional: tuple[str, ...] = ()) -> Json:
    required = [name for name in fields if name not in optional]
    return {"title": title, "type": "object", "properties": fields, "required": required}


def one(name: str, schema: Json) -> Json:
    """An object of one field."""
    return {"type": "object", "properties": {name: schema}, "required": [name]}


def settled(title: str, states: list[str], until: str = "") -> Json:
    fields = {"id": ID, "state": {"enum": states}} | ({until: TIME} if until else {})
    return record(title, fields, optional=(until,))


NOT_BOTH_TIMES: Json = {
    "not": {
        "required": ["deliver_after", "delay_ms"],
        "properties": {"deliver_after": TEXT, "delay_ms": WHOLE},
    }
}
# What the types do not say.
RULES: Json = {
    "Message": {"oneOf": [{"required": ["payload"]}, {"required": ["body"]}]} | NOT_BOTH_TIMES,
    "Move": {"anyOf": [one("priority", WHOLE), one("deliver_after", TEXT), one("delay_ms", WHOLE)]} | NOT_BOTH_TIMES,
    "DeadChoice": {"oneOf": [one("id", WHOLE), one("ids", {"type": "array"}), one("all", {"const": True})]},
}
FAILED = record("Failed", {"id": ID, "code": {"enum": ["not_leased", "stale_receipt", "shard_unavailable"]}})
PART: Json = record("Part", {"status": {"enum": ["OK", "down"]}, "detail": TEXT, "shard": WHOLE}, ("detail", "shard"))
ANSWERS: Json = {
    "Acked": settled("Acked", ["acked"]),
    "Nacked": settled("Nacked", ["retrying", "dead"], until="next_attempt_at"),
    "Extended": settled("Extended", ["extended"], until="lease_expires_at"),
    "Released": settled("Released", ["released"]),
    "Failed": FAILED | {"description": "Of an array: why this one was not settled."},
    "Part": PART,
    "Health": record(
        "Health",
        {
            "status": {"enum": ["OK", "degraded"]},
            "version": TEXT,
            "uptime": {"type": "number", "description": "In seconds."},
            "uptime_ms": {"type": "integer"},
            "control": ref("Part"),
            "shards": array(ref("Part")),
            "redis": ref("Part"),
            "wal": ref("Part"),
        },
    ),
    "Problem": record(
        "Problem",
        {
            **dict.fromkeys(("type", "title", "detail", "code"), TEXT),
            "status": WHOLE,
            "errors": array(
                record("Error", {"index": {"type": ["integer", "null"]}, "field": TEXT, "detail": TEXT}),
                description="Of a 400: each index and field that is wrong.",
            ),
            "index": WHOLE | {"description": "Of a 413: the message that is too large."},
            "ids": array({"type": ["integer", "null"]}, description="Of a 503 of /enqueue."),
            "in_doubt": array(WHOLE, description="Of a 503 of /enqueue: indexes whose commit is not known."),
        },
        optional=("errors", "index", "ids", "in_doubt"),
    ),
}


def schemas() -> Json:
    _, found = msgspec.json.schema_components(TYPES, ref_template=REF)
    for name, rule in RULES.items():
        found[name] |= rule
    return _portable(found) | ANSWERS


def control_schemas() -> Json:
    types = [kind for room in CONTROL for kind in (*room.TYPES, *room.PAGES)]
    _, found = msgspec.json.schema_components(types, ref_template=REF)
    return _portable(found)


def parameters(schema: Json) -> list[Json]:
    """The fields of a request that comes in the query. What is not there is null: nothing else stands for it."""
    found: list[Json] = []
    for field, said in schema["properties"].items():
        given = next((kind for kind in said.get("anyOf", ()) if kind.get("type") != "null"), said)
        found.append({"name": field, "in": "query", "required": field in schema["required"], "schema": given})
    return found


def _portable(schemas: Json) -> Json:
    """Python ends a pattern with \\Z, everybody else with $."""
    portable: Json = json.loads(json.dumps(schemas).replace("\\\\Z", "$"))
    return portable
