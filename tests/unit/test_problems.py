"""Errors as problem+json."""

import json

import pytest
from prometheus_client import REGISTRY

from mqueue.api.problems import problem
from mqueue.core import errors
from mqueue.core.errors import MqueueError


def every_error() -> list[type[MqueueError]]:
    found, left = [], [MqueueError]
    while left:
        found.append(left.pop())
        left += found[-1].__subclasses__()
    return found


@pytest.mark.parametrize("kind", every_error())
def test_every_error_renders_with_its_own_code_and_status(kind: type[MqueueError]) -> None:
    status, headers, body = problem(kind())
    fields = json.loads(body)
    assert headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "code"} <= fields.keys()
    assert (fields["status"], fields["code"]) == (status, kind.code) == (kind.http_status, kind.code)
    assert fields["detail"]


@pytest.mark.parametrize("kind", every_error())
def test_the_drawn_tree_names_every_error(kind: type[MqueueError]) -> None:
    assert f"{kind.__name__} " in (errors.__doc__ or "") or kind is MqueueError


def test_what_is_pushed_back_is_counted_by_its_code() -> None:
    def counted(code: str) -> float:
        return REGISTRY.get_sample_value("mqueue_pushed_back_total", {"reason": code}) or 0

    before = counted("control_unavailable"), counted("invalid")
    problem(errors.ControlUnavailable())
    problem(errors.Invalid())
    assert (counted("control_unavailable"), counted("invalid")) == (before[0] + 1, before[1])


@pytest.mark.parametrize("kind", [kind for kind in every_error() if kind.http_status == 503])
def test_whoever_is_pushed_back_is_told_when_to_try_again(kind: type[MqueueError]) -> None:
    _, headers, _ = problem(kind())
    assert int(headers["retry-after"]) >= 1
    assert int(headers["retry-after-ms"]) >= 1


def test_retry_after_is_whole_seconds_and_at_least_one() -> None:
    _, headers, _ = problem(errors.ShardUnavailable(retry_after_s=0.25))
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("1", "250")
