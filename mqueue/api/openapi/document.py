"""The paths and components of the document, from the tables of operations."""

import json

from mqueue.api.openapi import control
from mqueue.api.openapi.examples import ID as EXAMPLE_ID
from mqueue.api.openapi.operation import Operation
from mqueue.api.openapi.operations import METRICS, OPEN, OPERATIONS
from mqueue.api.openapi.schemas import ID as ID_SCHEMA
from mqueue.api.openapi.schemas import Json, control_schemas, parameters, ref, schemas
from mqueue.api.problems import CONTENT_TYPE, problem
from mqueue.core.errors import MqueueError, Unauthenticated

JSON = "application/json"
SECONDS: Json = {"type": "integer", "minimum": 1}
MESSAGE_ID: Json = {"name": "id", "in": "path", "required": True, "schema": ID_SCHEMA, "example": EXAMPLE_ID}
NO_STORE: Json = {"Cache-Control": {"schema": {"const": "no-store"}}}
RETRY: Json = {
    "Retry-After": {"description": "Seconds.", "required": True, "schema": SECONDS},
    "Retry-After-Ms": {"description": "The same, finer.", "required": True, "schema": SECONDS},
}
CHALLENGE: Json = {"WWW-Authenticate": {"required": True, "schema": {"const": "Bearer"}}}
TOKEN: Json = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "JWT",
    "description": "`manage.py token` prints one. The header may be spelled Authorisation too.",
}
API_KEY: Json = {"type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "A namespace's own."}
SESSION: Json = {"type": "apiKey", "in": "cookie", "name": "sessionid", "description": "Of staff, from the admin."}
CREDENTIALS: list[Json] = [{"token": []}, {"apiKey": []}]
PATH: dict[str, Json] = control.PARAMETERS | {"id": MESSAGE_ID}


def add_data_plane(result: Json, generator: object, request: object, public: bool) -> Json:
    """A drf-spectacular postprocessing hook."""
    components = result.setdefault("components", {})
    found = schemas()
    components.setdefault("schemas", {}).update(found)
    components.setdefault("responses", {}).update({kind.__name__: _refusal(kind) for kind in _errors(OPERATIONS)})
    components.setdefault("securitySchemes", {}).update({"token": TOKEN, "apiKey": API_KEY})
    paths = result.setdefault("paths", {})
    for path, methods in OPERATIONS.items():
        paths[path] = {method: _described(path, operation, found) for method, operation in methods.items()}
    for path, (operation, unwell) in OPEN.items():
        paths[path] = {"get": _open(operation, unwell)}
    paths["/metrics"] = {"get": METRICS}
    return result


def add_control_plane(result: Json, generator: object, request: object, public: bool) -> Json:
    """A drf-spectacular postprocessing hook, to come after that of the data plane, whose components it uses."""
    found = control_schemas()
    components = result["components"]
    components["schemas"] |= found
    components["responses"] |= {kind.__name__: _refusal(kind) for kind in _errors(control.OPERATIONS)}
    components["securitySchemes"]["session"] = SESSION
    for path, methods in control.OPERATIONS.items():
        described = {method: _described(path, operation, found) for method, operation in methods.items()}
        for operation in described.values():
            operation["security"] = [*CREDENTIALS, {"session": []}]
        result["paths"][path] = described
    return result


def _described(path: str, operation: Operation, found: Json) -> Json:
    done = _answer("Done", operation) | {"headers": operation.headers | NO_STORE}
    if operation.status == 204:
        del done["content"]
    responses = {str(status): done for status in (operation.status, *operation.also)}
    for kind in sorted(operation.errors, key=lambda kind: kind.http_status):
        responses[str(kind.http_status)] = {"$ref": f"#/components/responses/{kind.__name__}"}
    described = _head(operation) | {"security": CREDENTIALS, "responses": responses}
    named = [parameter for name, parameter in PATH.items() if f"{{{name}}}" in path]
    if named := named + _query(found, operation.query):
        described["parameters"] = named
    if operation.body is not None:
        content = {JSON: {"schema": operation.body, "example": operation.sent}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _open(operation: Operation, unwell: Json) -> Json:
    responses = {"200": _answer("It does", operation)}
    if unwell:
        responses["503"] = {"description": "It does not", "content": {JSON: {"schema": unwell}}}
    return _head(operation) | {"tags": ["health"], "security": [], "responses": responses}


def _head(operation: Operation) -> Json:
    head: Json = {"operationId": operation.name, "summary": operation.summary, "tags": [operation.tag]}
    return head | ({"description": operation.description.strip()} if operation.description else {})


def _answer(description: str, operation: Operation) -> Json:
    return {
        "description": description,
        "content": {JSON: {"schema": operation.answer, "example": operation.example}},
    }


def _query(found: Json, name: str) -> list[Json]:
    return parameters(found[name]) if name else []


def _errors(operations: dict[str, dict[str, Operation]]) -> list[type[MqueueError]]:
    used = {kind for methods in operations.values() for operation in methods.values() for kind in operation.errors}
    return sorted(used, key=lambda kind: (kind.http_status, kind.__name__))


def _refusal(kind: type[MqueueError]) -> Json:
    """As the service renders it."""
    _, _, body = problem(kind())
    content = {CONTENT_TYPE: {"schema": ref("Problem"), "example": json.loads(body)}}
    more = RETRY if kind.retryable else CHALLENGE if kind is Unauthenticated else {}
    return {"description": f"`{kind.code}`: {kind.__doc__}", "headers": more, "content": content}
