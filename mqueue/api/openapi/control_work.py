"""Searches, jobs and usage."""

from mqueue.api.control.urls import HOME
from mqueue.api.openapi import control_examples as ex
from mqueue.api.openapi.control_parts import ASKING, CHANGING, OPERATOR, VIEWER, Json, Record, get, list_of
from mqueue.api.openapi.examples import DEAD
from mqueue.api.openapi.operation import Operation
from mqueue.api.openapi.schemas import array, ref
from mqueue.core.errors import Conflict, Invalid, NamespaceNotFound, NotFound, ShardUnavailable

DLQ = "Scope `dlq` or `admin`; or the role "
JOB = Record("jobs", "Job", ex.JOB)
ANSWER: Json = {
    "type": "object",
    "properties": {
        "items": array(ref("DeadLetter")),
        "next": {"type": ["string", "null"]},
        "in_time": {"type": "boolean"},
    },
    "required": ["items", "next", "in_time"],
}
SEARCH = Operation(
    "search_dead_letters",
    "Search dead letters, those that died last first",
    ANSWER,
    {"items": [DEAD], "next": "1792333177769060-268435491", "in_time": True},
    "`text` is looked for in the error, and in the payload where that is text; `error` in the error alone; the case of "
    "ASCII letters does not matter. A search takes two seconds at most: then `in_time` is false, there may be less in "
    "`items` than was asked for, or nothing, and `next` says where to go on. Only `next: null` is the end. "
    + DLQ
    + "viewer.",
    query="DeadSearchPage",
    errors=(*ASKING, Invalid, NamespaceNotFound, ShardUnavailable),
    tag="dlq",
)
MAKE_JOB = Operation(
    "make_job",
    "Replay or delete all dead letters that a filter means",
    ref("Job"),
    ex.JOB,
    "In the background. With `dry_run` they are counted alone. `rate_per_s` and `max` bound it. What dies after it "
    "began is left out, and so is what died again. An empty `filter` means all. At most 100 are live. "
    + DLQ
    + "operator.",
    body=ref("JobRequest"),
    sent=ex.JOB_REQUEST,
    errors=(*CHANGING, Conflict),
    tag="jobs",
    status=201,
)
CANCEL = Operation(
    "cancel_job",
    "Cancel it",
    ref("Job"),
    ex.JOB | {"state": "cancelled"},
    "What is under way is finished, a portion of 500 at most; what was done stays done. `409` when it is over. "
    + DLQ
    + "operator.",
    errors=(*ASKING, NamespaceNotFound, Conflict),
    tag="jobs",
)
PURGE = Operation(
    "purge_topic",
    "Cancel all that waits in a topic",
    ref("Job"),
    ex.JOB | {"kind": "purge", "topic": "emails", "filter": {}},
    "Ready, scheduled and retrying, as far as it was there when the job began; with `dead` its dead letters too. "
    "What a consumer holds stays his. A job, as by `…/jobs/`. " + OPERATOR,
    body=ref("PurgeRequest"),
    sent={"dead": False, "dry_run": True},
    errors=(*CHANGING, NotFound, Conflict),
    tag="jobs",
    status=201,
)
USAGE_ANSWER: Json = {
    "type": "object",
    "properties": {
        "items": array(ref("UsageDay")),
        "next": {"type": ["string", "null"]},
        "now": ref("UsageNow"),
    },
    "required": ["items", "next", "now"],
}
USAGE = Operation(
    "get_usage",
    "What was used by day, and what there is now",
    USAGE_ANSWER,
    {"items": [ex.USAGE_DAY], "next": None, "now": ex.USAGE_NOW},
    "Days in UTC, the latest first; the last 30 unless `since` and `until` (both included) say otherwise. With "
    "`by_topic` one element for each topic and day. Right to some ten seconds. " + VIEWER,
    query="UsagePage",
    errors=(*ASKING, Invalid, NamespaceNotFound, ShardUnavailable),
    tag="usage",
)
OPERATIONS: dict[str, dict[str, Operation]] = {
    HOME + "dlq/": {"get": SEARCH},
    HOME + "jobs/": {"get": list_of(JOB, "Jobs, the newest first", "JobPage", DLQ + "viewer."), "post": MAKE_JOB},
    HOME + "jobs/{job}/": {"get": get(JOB, "A job, and how far it has come", DLQ + "viewer."), "delete": CANCEL},
    HOME + "topics/{topic}/purge/": {"post": PURGE},
    HOME + "usage/": {"get": USAGE},
}
