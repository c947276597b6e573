"""The OpenAPI document has the data plane, as its types have it."""

import re
from typing import Any

import jsonschema
import pytest

from mqueue.api.handlers import ROUTES
from mqueue.api.openapi import EXAMPLE, LEASED, add_data_plane
from mqueue.api.plane import OPEN_PATHS
from mqueue.core import names


@pytest.fixture
def document() -> dict[str, Any]:
    return add_data_plane({"openapi": "3.1.0"}, None, None, public=True)


def test_it_has_every_path_and_method_that_is_served(document: dict[str, Any]) -> None:
    described = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    served = {(path, method) for path, handlers in ROUTES.items() for method in handlers}
    assert described == served | {(path, "GET") for path in OPEN_PATHS}


def test_its_schemas_are_json_schema_and_its_examples_fit(document: dict[str, Any]) -> None:
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for name, example in (("Message", EXAMPLE), ("Settle", LEASED)):
        schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        jsonschema.validate(example, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(example | {"namespace": "Not A Name"}, schema)


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
