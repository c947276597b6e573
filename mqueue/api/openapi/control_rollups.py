"""What the pipeline has rolled up: usage by hour, and failures."""

from mqueue.api.control.urls import HOME
from mqueue.api.openapi import control_examples as ex
from mqueue.api.openapi.control_parts import ASKING, VIEWER, Json
from mqueue.api.openapi.operation import Operation
from mqueue.api.openapi.schemas import TEXT, TIME, array, ref
from mqueue.core.errors import Invalid, NamespaceNotFound, ShardUnavailable

ERRORS = (*ASKING, Invalid, NamespaceNotFound, ShardUnavailable)
OLD = " `rolled_up_at` says how old this is; where it is null, nothing ever was rolled up, and `hint` says why. "


def rolled_up(kind: str) -> Json:
    fields = {
        "items": array(ref(kind)),
        "next": {"type": ["string", "null"]},
        "rolled_up_at": {"anyOf": [TIME, {"type": "null"}]},
        "hint": {"anyOf": [TEXT, {"type": "null"}]},
    }
    return {"type": "object", "properties": fields, "required": list(fields)}


HOURS = Operation(
    "list_usage_hours",
    "What was used by the hour, and how long it took",
    rolled_up("UsageHour"),
    {"items": [ex.USAGE_HOUR], "next": None, "rolled_up_at": ex.AT, "hint": None},
    "Hours in UTC, the latest first, from `since` to before `until`; the last two days unless they say otherwise. With "
    "`by=day` sums of days, the last 30; with `by_topic` one element for each topic and time. Of each the percentiles "
    "of `wait_ms` (due to first delivery), `work_ms` (last delivery to ack) and `total_ms` (due to ack); of several "
    "hours or topics together, the greatest of theirs." + OLD + VIEWER,
    query="UsageHourPage",
    errors=ERRORS,
    tag="usage",
)
FAILURES = Operation(
    "list_failures",
    "What messages died of, the worst first",
    rolled_up("Failure"),
    {"items": [ex.FAILURE], "next": None, "rolled_up_at": ex.AT, "hint": None},
    "By topic, reason and error, the error without its numbers, ids, times, addresses and quoted texts. From the day "
    "`since` to `until` (both included), the last 30 unless they say otherwise. `redrive.job` is a body for `…/jobs/` "
    "that replays those of this error, as nearly as a search can find them."
    + OLD
    + "Scope `dlq` or `admin`; or the role "
    "viewer.",
    query="FailurePage",
    errors=ERRORS,
    tag="usage",
)
OPERATIONS: dict[str, dict[str, Operation]] = {
    HOME + "usage/hours/": {"get": HOURS},
    HOME + "failures/": {"get": FAILURES},
}
