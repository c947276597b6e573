"""The service keeps to its own description: requests made from the OpenAPI document, good ones and bad ones.

The good ones are made to hit: most of them name a topic that has messages in every state. Checked are statuses, media,
headers and schemas of the answers, that what fits is taken, and that what does not fit is refused.
"""

import datetime
from collections.abc import Iterator
from functools import cache
from itertools import cycle
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqueue.api.openapi import add_data_plane
from tests.acceptance.calls import Json, die, get, put, settle
from tests.service import Service

EXAMPLES = 20
BAD = schemathesis.GenerationMode.NEGATIVE
past = st.integers(0, 1_700_000_000).map(
    lambda seconds: datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()
)
schemathesis.openapi.format("date-time", past)  # any time would mostly be more than 90 days ahead


@cache
def described() -> Any:
    document = {"openapi": "3.1.0", "info": {"title": "mqueue", "version": "v1"}}
    schema = schemathesis.openapi.from_dict(add_data_plane(document, None, None, public=True))
    schema.config.generation.update(allow_extra_parameters=False)  # what is unknown is ignored
    return schema


OPERATIONS = [(path, method) for path, methods in described().raw_schema["paths"].items() for method in methods]
TAKES_NOTHING = ("/health", "/live", "/ready", "/metrics")
CASES = [
    pytest.param(path, method.upper(), mode, id=f"{method.upper()} {path} {mode.value}")
    for path, method in OPERATIONS
    for mode in schemathesis.GenerationMode
    if mode is not BAD or path not in TAKES_NOTHING
]


@pytest.mark.parametrize(("path", "method", "mode"), CASES)
def test_requests_from_the_description_are_answered_as_it_says(
    service: Service, namespace: str, path: str, method: str, mode: Any
) -> None:
    operation = described()[path][method]
    answered: set[int] = set()
    with service.client() as http:
        headers = {"Authorization": http.headers["Authorization"]}
        aims = in_every_state(http, namespace)

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def holds(case: Any) -> None:
            if mode is not BAD:
                aim = next(aims)
                case.body = hitting(case.body, aim)
                case.query = hitting(dict(case.query or {}), aim)
                case.path_parameters = hitting(case.path_parameters, aim)
                if path == "/messages" and "idempotency_key" not in case.query:
                    case.query.setdefault("topic", "t")  # one of the two is needed, which OpenAPI cannot say
            case.query, case.body = patient(case.query), patient(case.body)
            answer = case.call(service.url, headers=headers)
            answered.add(answer.status_code)
            case.validate_response(answer, headers=headers)

        holds()
    assert 200 in answered or mode is BAD, answered
    assert not answered & {500, 502, 504}


def in_every_state(http: httpx.Client, namespace: str) -> Iterator[Json]:
    """What names a message of topic t, in each state in turn; then one that is not there, and nothing at all."""
    dead, acked, leased = die(http, namespace, headers={"h": "v"}), put(http, namespace), put(http, namespace)
    first, second = get(http, namespace, limit=2)
    settle(http, "ack", first)
    binary = {"namespace": namespace, "topic": "t", "payload": "AP8=", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    ready = http.post("/enqueue", json=binary).json()[0]
    scheduled = put(http, namespace, delay_ms=3_600_000, idempotency_key="k")
    place = {"namespace": namespace, "topic": "t", "receipt": second["receipt"]}
    return cycle([*(place | {"id": number} for number in (leased, ready, scheduled, dead, acked, 7)), {}, {}])


def patient(fields: Any) -> Any:
    """Nobody waits for long here."""
    if isinstance(fields, dict) and str(fields.get("wait_ms", "")).isdigit() and 5 < int(fields["wait_ms"]) <= 20_000:
        return fields | {"wait_ms": 5}
    return fields


def hitting(sent: Any, aim: Json) -> Any:
    """The same, aimed at a message where it names one. A whole number is written without a fraction."""
    if isinstance(sent, list):
        return [hitting(part, aim) for part in sent]
    if isinstance(sent, dict):
        inner = {name: hitting(part, {}) for name, part in sent.items()}
        return inner | {name: value for name, value in aim.items() if name in sent}
    return int(sent) if isinstance(sent, float) and sent.is_integer() else sent
