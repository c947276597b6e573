"""The data plane in the OpenAPI document, from the very types that decode its requests.

drf-spectacular describes what is in Django's URLconf; the data plane is served beside it, so a hook adds its paths.
"""

import json
from typing import Any

import msgspec

from mqueue.core.messages import Delivered, Dequeue, Message, Settle

Json = dict[str, Any]
EXAMPLE: Json = {"namespace": "acme", "topic": "emails", "body": {"to": "ada@example.com"}}
LEASED: Json = {"id": 268436515, "namespace": "acme", "topic": "emails", "receipt": "AAAAABAABCMAAAAB"}


def add_data_plane(result: Json, generator: object, request: object, public: bool) -> Json:
    """A drf-spectacular postprocessing hook."""
    _, schemas = msgspec.json.schema_components((Message, Dequeue, Settle, Delivered), ref_template=REF)
    components = result.setdefault("components", {})
    components.setdefault("schemas", {}).update(_portable(schemas) | PROBLEM)
    components.setdefault("securitySchemes", {})["token"] = {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "manage.py token prints one.",
    }
    result.setdefault("paths", {}).update(_paths(schemas["Dequeue"]))
    return result


REF = "#/components/schemas/{name}"
PROBLEM: Json = {
    "Problem": {
        "type": "object",
        "title": "Problem",
        "required": ["type", "title", "status", "detail", "code"],
        "properties": {
            **{name: {"type": "string"} for name in ("type", "title", "detail", "code")},
            "status": {"type": "integer"},
            "errors": {"type": "array", "items": {"type": "object"}, "description": "for 400: index, field, detail"},
            "ids": {"type": "array", "items": {"type": ["integer", "null"]}, "description": "for 503 of /enqueue"},
            "in_doubt": {"type": "array", "items": {"type": "integer"}, "description": "for 503 of /enqueue"},
        },
    }
}


def _paths(dequeue: Json) -> Json:
    delivered = {"type": "array", "items": _ref("Delivered")}
    ids = {"type": "array", "items": {"type": "integer"}}
    settled: Json = {"type": "object", "properties": {name: {} for name in ("id", "state", "code")}}
    query = [
        {"name": name, "in": "query", "required": name in dequeue["required"], "schema": schema}
        for name, schema in dequeue["properties"].items()
    ]
    settled_many = {"anyOf": [settled, {"type": "array", "items": settled}]}
    taken = ("Lease what is due, in order", delivered, (400, 401, 403, 503))
    wanted = _body(_ref("Dequeue"), {"namespace": "acme", "topic": "emails"})
    enqueue = _operation("enqueue", "Add messages", ids, (400, 401, 403, 404, 413, 415, 503))
    ack = _operation("ack", "Settle what is leased", settled_many, (400, 401, 403, 404, 409, 413, 415, 503))
    return {
        "/enqueue": {"post": enqueue | _body(_one_or_many("Message", 10_000), EXAMPLE)},
        "/dequeue": {
            "get": _operation("dequeue", *taken) | {"parameters": query},
            "post": _operation("dequeue_by_body", *taken) | wanted,
        },
        "/ack": {"post": ack | _body(_one_or_many("Settle", 1_000), LEASED)},
        "/health": {"get": _open_operation("health", "What works and what does not")},
        "/live": {"get": _open_operation("live", "The process runs")},
        "/ready": {"get": _open_operation("ready", "It can serve")},
    }


def _operation(name: str, summary: str, answer: Json, problems: tuple[int, ...]) -> Json:
    responses = _answer(200, "OK", "application/json", answer)
    for status in problems:
        responses |= _answer(status, "see its code", "application/problem+json", _ref("Problem"))
    security: list[Json] = [{"token": []}]
    return {"operationId": name, "summary": summary, "tags": ["queue"], "security": security, "responses": responses}


def _open_operation(name: str, summary: str) -> Json:
    """Without a token."""
    responses: Json = {}
    for status, meaning in ((200, "it does"), (503, "it does not")):
        responses |= _answer(status, meaning, "application/json", {"type": "object"})
    return {"operationId": name, "summary": summary, "tags": ["health"], "security": [], "responses": responses}


def _answer(status: int, description: str, media: str, schema: Json) -> Json:
    return {str(status): {"description": description, "content": {media: {"schema": schema}}}}


def _body(schema: Json, example: Json) -> Json:
    content = {"application/json": {"schema": schema, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


def _one_or_many(name: str, most: int) -> Json:
    return {"anyOf": [_ref(name), {"type": "array", "items": _ref(name), "minItems": 1, "maxItems": most}]}


def _ref(name: str) -> Json:
    return {"$ref": REF.format(name=name)}


def _portable(schemas: Json) -> Json:
    """Python ends a pattern with \\Z, everybody else with $."""
    portable: Json = json.loads(json.dumps(schemas).replace("\\\\Z", "$"))
    return portable
