"""One function a verb: from who asks and what he sent to status, headers and body. Adapters hold no rule."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from mqueue.api import problems, requests
from mqueue.core.errors import ShardUnavailable
from mqueue.core.messages import Settle
from mqueue.core.tokens import Principal
from mqueue.engine.engine import Engine
from mqueue.engine.enqueue import Enqueued
from mqueue.engine.settle import Outcome

JSON = {"content-type": "application/json"}
FRESH = JSON | {"cache-control": "no-store"}
Answer = tuple[int, dict[str, str], bytes]


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: bytes
    body: bytes


Handler = Callable[[Engine, Principal, Request], Awaitable[Answer]]


async def enqueue(engine: Engine, principal: Principal, request: Request) -> Answer:
    messages = requests.parse_enqueue(request.body)
    for namespace in {message.namespace for message in messages}:
        principal.require(namespace, "enqueue")
    try:
        result = await engine.enqueue(principal.subject, messages)
    except ShardUnavailable as error:
        result = Enqueued(ids=[None] * len(messages), error=error)
    if result.error:
        result.error.extra = {"ids": result.ids, "in_doubt": result.in_doubt}
        return problems.problem(result.error)
    return 200, JSON | {"mqueue-duplicates": "0"}, msgspec.json.encode(result.ids)


async def dequeue(engine: Engine, principal: Principal, request: Request) -> Answer:
    wanted = requests.parse_dequeue(request.method, request.query, request.body)
    principal.require(wanted.namespace, "dequeue")
    return 200, FRESH, msgspec.json.encode(await engine.dequeue(principal.subject, wanted))


async def ack(engine: Engine, principal: Principal, request: Request) -> Answer:
    settles, is_array = requests.parse_settles(request.body)
    for namespace in {settle.namespace for settle in settles}:
        principal.require(namespace, "dequeue")
    outcomes = await engine.ack(principal.subject, settles)
    if not is_array and outcomes[0]:
        raise outcomes[0]
    answers = [_settled(settle, outcome, "acked") for settle, outcome in zip(settles, outcomes, strict=True)]
    return 200, FRESH, msgspec.json.encode(answers if is_array else answers[0])


def _settled(settle: Settle, outcome: Outcome, state: str) -> dict[str, Any]:
    return {"id": settle.id, "code": outcome.code} if outcome else {"id": settle.id, "state": state}


HANDLERS: dict[str, tuple[Handler, frozenset[str]]] = {
    "/enqueue": (enqueue, frozenset({"POST"})),
    "/dequeue": (dequeue, frozenset({"GET", "POST"})),
    "/ack": (ack, frozenset({"POST"})),
}
