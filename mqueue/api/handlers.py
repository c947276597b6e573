"""One function a verb: from who asks and what he sent to status, headers and body. Adapters hold no rule."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mqueue.api import problems, requests
from mqueue.api.presence import Present
from mqueue.core.errors import MqueueError, ShardUnavailable
from mqueue.core.messages import DeadPage, Delivered, Dequeue, Extend, Nack, Place, Settle, StatsPage
from mqueue.core.tokens import Principal
from mqueue.engine.engine import Engine
from mqueue.engine.enqueue import Enqueued
from mqueue.engine.settle import Outcome

JSON = {"content-type": "application/json"}
FRESH = JSON | {"cache-control": "no-store"}
Answer = tuple[int, dict[str, str], bytes]
PRESENT = Present()


@dataclass(slots=True)
class Request:
    method: str
    path: str
    query: bytes
    body: bytes
    id: str = ""  # what stands in the place of {id} in the path
    client: Present = PRESENT


Handler = Callable[[Engine, Principal, Request], Awaitable[Answer]]


async def enqueue(engine: Engine, principal: Principal, request: Request) -> Answer:
    messages = requests.parse_enqueue(request.body)
    _require(principal, messages, "enqueue")
    enqueue_ = engine.enqueue_within_quotas if engine.settings.limited else engine.enqueue
    try:
        result = await enqueue_(principal.subject, messages)
    except ShardUnavailable as error:
        result = Enqueued(ids=[None] * len(messages), error=error)
    if result.error:
        result.error.extra = {"ids": result.ids, "in_doubt": result.in_doubt}
        return problems.problem(result.error)
    status = 202 if result.buffered else 200
    return status, JSON | {"mqueue-duplicates": str(result.duplicates)}, msgspec.json.encode(result.ids)


async def dequeue(engine: Engine, principal: Principal, request: Request) -> Answer:
    if request.method == "POST":
        wanted = requests.parse(request.body, Dequeue)
    else:
        wanted = requests.parse_query(request.query, Dequeue)
    principal.require(wanted.namespace, "dequeue")
    found = await request.client.unless_left(engine.dequeue(principal.subject, wanted), waits=wanted.wait_ms > 0)
    try:
        if wanted.wait_ms and (now := request.client.verify_again()):  # it may have been revoked meanwhile
            now.require(wanted.namespace, "dequeue")
    except MqueueError:
        await _give_back(engine, principal, found)
        raise
    if request.client.has_left:
        await _give_back(engine, principal, found)
    return 200, FRESH, msgspec.json.encode(found or [])


async def _give_back(engine: Engine, principal: Principal, found: list[Delivered] | None) -> None:
    if found:
        settles = [Settle(one.id, one.namespace, one.topic, one.receipt) for one in found]
        await engine.release(principal.subject, settles)


async def ack(engine: Engine, principal: Principal, request: Request) -> Answer:
    settles, is_array = requests.parse_settles(request.body, Settle)
    _require(principal, settles, "dequeue")
    return _settled(settles, await engine.ack(principal.subject, settles), is_array)


async def nack(engine: Engine, principal: Principal, request: Request) -> Answer:
    nacks, is_array = requests.parse_settles(request.body, Nack)
    _require(principal, nacks, "dequeue")
    return _settled(nacks, await engine.nack(principal.subject, nacks), is_array, until="next_attempt_at")


async def extend(engine: Engine, principal: Principal, request: Request) -> Answer:
    extends, is_array = requests.parse_settles(request.body, Extend)
    _require(principal, extends, "dequeue")
    return _settled(extends, await engine.extend(principal.subject, extends), is_array, until="lease_expires_at")


async def release(engine: Engine, principal: Principal, request: Request) -> Answer:
    settles, is_array = requests.parse_settles(request.body, Settle)
    _require(principal, settles, "dequeue")
    return _settled(settles, await engine.release(principal.subject, settles), is_array)


async def dead_letters(engine: Engine, principal: Principal, request: Request) -> Answer:
    wanted = requests.parse_query(request.query, DeadPage)
    principal.require(wanted.namespace, "dlq")
    return _json(await engine.dead.page(wanted))


async def delete_dead(engine: Engine, principal: Principal, request: Request) -> Answer:
    choice = requests.parse_dead_choice(request.body)
    principal.require(choice.namespace, "dlq")
    return _json({"deleted": await engine.dead.delete(principal.subject, choice)})


async def replay_dead(engine: Engine, principal: Principal, request: Request) -> Answer:
    choice = requests.parse_dead_choice(request.body)
    principal.require(choice.namespace, "dlq")
    return _json({"replayed": await engine.dead.replay(principal.subject, choice)})


async def find(engine: Engine, principal: Principal, request: Request) -> Answer:
    wanted = requests.parse_find(request.query)
    principal.require_any(wanted.namespace)
    return _json(await engine.look.find(wanted))


async def look(engine: Engine, principal: Principal, request: Request) -> Answer:
    place = requests.parse_query(request.query, Place)
    principal.require_any(place.namespace)
    return _json(await engine.look.message(requests.parse_id(request.id), place))


async def cancel(engine: Engine, principal: Principal, request: Request) -> Answer:
    place = requests.parse_query(request.query, Place)
    principal.require(place.namespace, "enqueue")
    message_id = requests.parse_id(request.id)
    await engine.waiting.cancel(principal.subject, message_id, place)
    return _json({"id": message_id, "state": "cancelled"})


async def move(engine: Engine, principal: Principal, request: Request) -> Answer:
    wanted = requests.parse_move(request.body)
    principal.require(wanted.namespace, "enqueue")
    message_id = requests.parse_id(request.id)
    return _json({"id": message_id, "state": await engine.waiting.move(principal.subject, message_id, wanted)})


async def trace(engine: Engine, principal: Principal, request: Request) -> Answer:
    place = requests.parse_query(request.query, Place)
    principal.require_any(place.namespace)
    return _json({"events": await engine.look.trace(requests.parse_id(request.id), place)})


async def stats(engine: Engine, principal: Principal, request: Request) -> Answer:
    wanted = requests.parse_query(request.query, StatsPage)
    principal.require_any(wanted.namespace)
    return _json({"topics": await engine.look.stats(wanted)})


def _require(principal: Principal, parts: Sequence[Any], scope: str) -> None:
    """None of nothing: that is not done for anybody."""
    for namespace in (parts[0].namespace,) if len(parts) == 1 else {part.namespace for part in parts}:
        principal.require(namespace, scope)


def _settled(settles: Sequence[Settle], outcomes: Sequence[Outcome], is_array: bool, until: str = "") -> Answer:
    if not is_array and isinstance(outcomes[0], MqueueError):
        raise outcomes[0]
    answers = [_outcome(settle.id, outcome, until) for settle, outcome in zip(settles, outcomes, strict=True)]
    return _json(answers if is_array else answers[0])


def _outcome(message_id: int, outcome: Outcome, until: str) -> dict[str, Any]:
    if isinstance(outcome, MqueueError):
        return {"id": message_id, "code": outcome.code}
    more = {until: outcome.until} if outcome.until else {}
    return {"id": message_id, "state": outcome.state} | more


def _json(answer: object) -> Answer:
    return 200, FRESH, msgspec.json.encode(answer)


# By path, then by method. A path may end in a message's id, and go on after it.
ROUTES: dict[str, dict[str, Handler]] = {
    "/enqueue": {"POST": enqueue},
    "/dequeue": {"GET": dequeue, "POST": dequeue},
    "/ack": {"POST": ack},
    "/nack": {"POST": nack},
    "/extend": {"POST": extend},
    "/release": {"POST": release},
    "/dlq": {"GET": dead_letters},
    "/dlq/delete": {"POST": delete_dead},
    "/dlq/replay": {"POST": replay_dead},
    "/messages": {"GET": find},
    "/messages/{id}": {"GET": look, "DELETE": cancel, "PATCH": move},
    "/messages/{id}/trace": {"GET": trace},
    "/stats": {"GET": stats},
}


def route(path: str) -> tuple[dict[str, Handler], str] | None:
    """The handlers at a path by method, and the id in it."""
    if handlers := ROUTES.get(path):
        return handlers, ""
    if not path.startswith("/messages/"):
        return None
    message_id, slash, rest = path.removeprefix("/messages/").partition("/")
    handlers = ROUTES.get("/messages/{id}" + slash + rest) if message_id else None
    return (handlers, message_id) if handlers else None
