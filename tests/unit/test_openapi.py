"""The OpenAPI document has the data plane, as its types have it."""

import json
import re
from contextlib import nullcontext
from typing import Any

import jsonschema
import pytest
from django.test import RequestFactory
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.views import SpectacularAPIView

from mqueue.api.control.urls import VIEWS
from mqueue.api.handlers import ROUTES
from mqueue.api.openapi import EXAMPLE, LEASED, add_control_plane, add_data_plane, served
from mqueue.api.plane import METRICS, OPEN_PATHS
from mqueue.api.requests import parse_dead_choice, parse_enqueue, parse_move
from mqueue.core import names
from mqueue.core.errors import Invalid


@pytest.fixture
def document() -> dict[str, Any]:
    """As far as it is ours."""
    found = add_data_plane({"openapi": "3.1.0"}, None, None, public=True)
    return add_control_plane(found, None, None, public=True)


def test_it_has_every_path_and_method_that_is_served(document: dict[str, Any]) -> None:
    described = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    served = {(path, method) for path, handlers in ROUTES.items() for method in handlers}
    served |= {(path, method) for path, view in VIEWS.items() for method in view.roles}
    assert described == served | {(path, "GET") for path in (*OPEN_PATHS, METRICS)}


def test_its_schemas_are_json_schema_and_its_examples_fit(document: dict[str, Any]) -> None:
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for name, example in (("Message", EXAMPLE), ("Settle", LEASED)):
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        jsonschema.validate(example, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(example | {"namespace": "Not A Name"}, schema)


def test_every_example_fits_its_schema(document: dict[str, Any]) -> None:
    shown = 0
    for methods in document["paths"].values():
        for operation in methods.values():
            for part in [operation.get("requestBody"), *operation["responses"].values()]:
                for content in (resolved(document, part) or {}).get("content", {}).values():
                    if "example" in content:
                        schema = content["schema"] | {"components": document["components"]}
                        jsonschema.validate(content["example"], schema)
                        shown += 1
    assert shown > 50


def resolved(document: dict[str, Any], part: Any) -> Any:
    """What a reference leads to."""
    if not part or "$ref" not in part:
        return part
    for name in part["$ref"].removeprefix("#/").split("/"):
        document = document[name]
    return document


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for name in set(re.findall(r"'\$ref': '([^']+)'", str(document))):
        assert resolved(document, {"$ref": name}), name


@pytest.mark.parametrize(
    ("name", "request_", "fits"),
    [
        ("Message", {"body": None}, True),
        ("Message", {"payload": "AA=="}, True),
        ("Message", {"payload": "AA"}, False),
        ("Message", {"payload": "AA==", "body": 1}, False),
        ("Message", {}, False),
        ("Message", {"body": 1, "delay_ms": 1, "deliver_after": None}, True),
        ("Message", {"body": 1, "delay_ms": 1, "deliver_after": "2026-01-01T00:00:00Z"}, False),
        ("Message", {"body": 1, "headers": {"a": "\0"}}, False),
        ("Move", {"priority": 1}, True),
        ("Move", {"priority": None}, False),
        ("Move", {"delay_ms": 1, "deliver_after": "2026-01-01T00:00:00Z"}, False),
        ("DeadChoice", {"id": 1, "ids": None, "all": False}, True),
        ("DeadChoice", {"id": 1, "all": True}, False),
        ("DeadChoice", {"all": False}, False),
    ],
)
def test_schemas_and_code_agree(document: dict[str, Any], name: str, request_: dict[str, Any], fits: bool) -> None:
    asked = {"namespace": "a", "topic": "t"} | request_
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    assert jsonschema.Draft202012Validator(schema).is_valid(asked) is fits
    parse = {"Message": parse_enqueue, "Move": parse_move, "DeadChoice": parse_dead_choice}[name]
    with nullcontext() if fits else pytest.raises(Invalid):
        parse(json.dumps(asked).encode())


def test_our_views_are_not_described_twice(document: dict[str, Any]) -> None:
    whole = SchemaGenerator(api_version="v1").get_schema(request=None, public=True)
    assert whole["openapi"].startswith("3.1")
    assert whole["paths"].keys() == document["paths"].keys()


FORMS: list[dict[str, Any]] = [
    {},
    {"HTTP_ACCEPT": "application/yaml"},
    {"HTTP_ACCEPT": "application/json"},
    {"HTTP_ACCEPT": "application/json; indent=2"},
    {"HTTP_ACCEPT": "application/vnd.oai.openapi+json"},
    {"HTTP_ACCEPT": "text/html, */*"},
    {"HTTP_ACCEPT": "image/png"},
    {"QUERY_STRING": "format=json"},
    {"QUERY_STRING": "format=yaml"},
    {"QUERY_STRING": "format=xml"},
]


def answered(view: Any, form: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
    answer = view.as_view()(RequestFactory().get("/api/schema/", **form))
    return answer.status_code, (answer.render() if hasattr(answer, "render") else answer).content, dict(answer.headers)


def test_the_document_is_made_once_and_served_as_it_would_be_made_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [answered(SpectacularAPIView, form) for form in FORMS]
    assert {status for status, _, _ in before} == {200, 404, 406}
    served._document.cache_clear()
    served._forms.clear()
    made = 0
    real = SchemaGenerator.get_schema

    def counted(*given: Any, **more: Any) -> Any:
        nonlocal made
        made += 1
        return real(*given, **more)

    monkeypatch.setattr(SchemaGenerator, "get_schema", counted)
    for _ in range(2):
        assert [answered(served.DocumentView, form) for form in FORMS] == before
    assert made == 1
    assert len(served._forms) == 5


def test_patterns_are_understood_outside_python(document: dict[str, Any]) -> None:
    pattern = document["components"]["schemas"]["Dequeue"]["properties"]["namespace"]["pattern"]
    assert pattern == names.NAMESPACE.replace("\\Z", "$")
    assert re.search(pattern, "acme")


def test_every_operation_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    operations = [
        operation.get("operationId") for methods in document["paths"].values() for operation in methods.values()
    ]
    given = [name for name in operations if name]
    assert len(given) == len(set(given))
