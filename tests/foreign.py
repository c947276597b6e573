"""Requests for what somebody else has, made from the description of each operation."""

import json
from functools import cache
from typing import Any
from urllib.parse import urlencode

from mqueue.api.openapi.operation import Operation
from mqueue.api.openapi.schemas import control_schemas, schemas


def asked_of(
    path: str, method: str, operation: Operation, namespace: str, message_id: int = 5
) -> tuple[str, bytes, bytes]:
    """Path, query and body of a good request for something in the namespace."""
    query: dict[str, Any] = {}
    if operation.query:
        fields = _fields()[operation.query]["properties"]
        query = {name: value for name, value in {"namespace": namespace, "topic": "t"}.items() if name in fields}
    body = json.dumps(_moved(operation.sent, namespace)).encode() if operation.sent is not None else b""
    return path.replace("{id}", str(message_id)), urlencode(query).encode(), body


@cache
def _fields() -> dict[str, Any]:
    return schemas() | control_schemas()


def _moved(sent: Any, namespace: str) -> Any:
    return sent | {name: value for name, value in (("namespace", namespace), ("topic", "t")) if name in sent}
