"""From bytes to what was asked: every field that is wrong is named."""

import re
from typing import Any, TypeVar

import msgspec
from django.http import UnreadablePostError
from django.http.request import RawPostDataException
from rest_framework.request import Request

from mqueue.api import plane, requests
from mqueue.core.errors import Invalid, TooLarge

T = TypeVar("T", bound=msgspec.Struct)
MAX_BODY = 256 * 1024


def read_query(request: Request, kind: type[T]) -> T:
    query = request.META.get("QUERY_STRING", "").encode("utf-8", "surrogateescape")
    return requests.parse_query(query, kind)


def read_body(request: Request, kind: type[T]) -> T:
    """No body at all is an empty object."""
    body = _bytes(request)
    try:
        data = msgspec.json.decode(body) if body.strip() else {}
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Invalid(f"The body cannot be read: {error}", errors=[]) from error
    if not isinstance(data, dict):
        raise Invalid("The body has to be an object", errors=[])
    return convert(data, kind)


def convert(data: dict[str, Any], kind: type[T]) -> T:
    errors, values = [], {}
    for field in msgspec.structs.fields(kind):
        if field.name in data:
            try:
                values[field.name] = msgspec.convert(data[field.name], field.type)
            except msgspec.ValidationError as error:
                errors.append(_described(field.name, str(error)))
        elif field.required:
            errors.append({"index": None, "field": field.name, "detail": "is required"})
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise Invalid(f"{errors[0]['field']}: {errors[0]['detail']}{more}", errors=errors)
    return kind(**values)


def _bytes(request: Request) -> bytes:
    headers = {b"content-length": str(request.META.get("CONTENT_LENGTH") or "0").encode("latin-1")}
    if int(headers[b"content-length"] or 0) > MAX_BODY:
        raise TooLarge(f"The request is over {MAX_BODY} bytes")
    try:
        body: bytes = request._request.read(MAX_BODY + 1)  # noqa: SLF001  DRF has no other way to the bytes
    except (UnreadablePostError, RawPostDataException) as error:
        raise Invalid("The body ended too soon", errors=[]) from error
    if len(body) > MAX_BODY:
        raise TooLarge(f"The request is over {MAX_BODY} bytes")
    plane.require_whole(headers if request.META.get("CONTENT_LENGTH") else {}, body)
    return body


def _described(name: str, text: str) -> dict[str, Any]:
    """msgspec ends its message with the path in what it read."""
    detail, _, path = text.partition(" - at `$")
    inner = re.sub(r"`\Z", "", path)
    return {"index": None, "field": name + inner, "detail": detail}
