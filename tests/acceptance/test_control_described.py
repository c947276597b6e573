"""The control plane keeps to its description: requests made from the OpenAPI document, good ones and bad ones."""

import secrets
from functools import cache
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from mqueue.api.control.urls import HOME
from mqueue.api.openapi import add_control_plane, add_data_plane
from mqueue.api.openapi.control import OPERATIONS
from tests.acceptance.calls import Json, once
from tests.acceptance.conftest import Services
from tests.acceptance.people import make_user
from tests.acceptance.test_described import hitting
from tests.service import Service

pytestmark = once
EXAMPLES = 15
BAD = schemathesis.GenerationMode.NEGATIVE
DONE = {200, 201, 204}


@cache
def described() -> Any:
    document = {"openapi": "3.1.0", "info": {"title": "mqueue", "version": "v1"}}
    whole = add_control_plane(add_data_plane(document, None, None, public=True), None, None, public=True)
    schema = schemathesis.openapi.from_dict(whole)
    schema.config.generation.update(allow_extra_parameters=False)  # what is unknown is ignored
    return schema


CASES = [
    pytest.param(path, method.upper(), mode, id=f"{method.upper()} {path} {mode.value}")
    for path, operations in OPERATIONS.items()
    for method in operations
    for mode in schemathesis.GenerationMode
]


@pytest.fixture(scope="module")
def user(services: Services) -> str:
    name = f"user-{secrets.token_hex(3)}"
    make_user(services["fast lane"], name)
    return name


def made(http: httpx.Client, namespace: str, user: str) -> Json:
    """One of everything is there; what names it."""
    home = HOME.format(namespace=namespace)
    http.put(home, json={})
    http.put(home + "topics/t/", json={})
    http.put(home + f"members/{user}/", json={"role": "viewer"})
    live = http.get(home + "keys/", params={"state": "live"}).json()["items"]
    kid = live[0]["kid"] if live else http.post(home + "keys/", json={}).json()["kid"]
    listed = http.get(home + "jobs/", params={"state": "queued"}).json()["items"]
    wanted = {"kind": "delete", "filter": {"topic": "none"}, "dry_run": True}
    job = listed[0]["id"] if listed else http.post(home + "jobs/", json=wanted).json()["id"]
    return {"namespace": namespace, "topic": "t", "user": user, "kid": kid, "job": str(job)}


@pytest.mark.parametrize(("path", "method", "mode"), CASES)
def test_requests_from_the_description_are_answered_as_it_says(
    service: Service, namespace: str, user: str, path: str, method: str, mode: Any
) -> None:
    operation = described()[path][method]
    answered: set[int] = set()
    with service.client() as http:
        headers = {"Authorization": http.headers["Authorization"]}

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def holds(case: Any) -> None:
            names = made(http, namespace, user)
            if mode is not BAD:
                case.path_parameters = {name: names[name] for name in case.path_parameters or {}}
                case.body = sendable(case.body)
            answer = case.call(service.url, headers=headers)
            answered.add(answer.status_code)
            case.validate_response(answer, headers=headers)

        holds()
    assert answered & DONE or mode is BAD, answered
    assert not answered & {500, 502, 504}


def sendable(body: Any) -> Any:
    """What OpenAPI cannot say: which kind of key wants a public one, and that an expiry lies ahead. A whole number is
    written without a fraction."""
    body = hitting(body, {})
    if isinstance(body, dict) and ("public_key" in body or "expires_at" in body):
        return {"name": body.get("name", ""), "scopes": body.get("scopes")}
    return body
