"""Errors as application/problem+json (RFC 9457)."""

import math
from typing import Any

import msgspec
from django.http import HttpRequest, HttpResponse

from mqueue.core import metrics
from mqueue.core.errors import Invalid, MqueueError, NotFound

CONTENT_TYPE = "application/problem+json"


def problem(error: MqueueError) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer to a failed request."""
    body: dict[str, Any] = {
        "type": f"urn:mqueue:error:{error.code}",
        "title": error.title,
        "status": error.http_status,
        "detail": error.detail,
        "code": error.code,
    }
    if error.http_status == 503:
        metrics.PUSHED_BACK.labels(error.code).inc()
    headers = {"content-type": CONTENT_TYPE, "cache-control": "no-store"}
    if error.retry_after_s is not None:
        microseconds = round(error.retry_after_s * 1e6)  # whole ones: 4.35 s are not 4,350.0000000000005 ms
        headers["retry-after"] = str(max(1, math.ceil(microseconds / 1e6)))
        headers["retry-after-ms"] = str(max(1, math.ceil(microseconds / 1e3)))
    if error.http_status == 401:
        headers["www-authenticate"] = "Bearer"
    headers.update(error.extra.pop("headers", {}))
    return error.http_status, headers, msgspec.json.encode(body | error.extra)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _response(NotFound(f"There is nothing at {request.path}"))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _response(Invalid("Django cannot take this request", errors=[]))


def server_error(request: HttpRequest) -> HttpResponse:
    return _response(MqueueError("This is our fault; the service's log says more."))


def _response(error: MqueueError) -> HttpResponse:
    status, headers, body = problem(error)
    return HttpResponse(body, status=status, headers=headers)
