"""Consumers: long and short polls, and for each message one of the ends that a lease can have."""

import asyncio
from collections import defaultdict
from random import Random
from typing import Any

from mqueue.core import receipts
from tests.faults.checker.client import Answer, Client
from tests.faults.checker.messages import NAMESPACE, body_of, tag_of
from tests.faults.checker.times import SECOND, now, of_server
from tests.faults.checker.worker import DRAIN, RUN, STOP, Worker, place

LEAVES_ONE_IN = 400
PILING_S, HARVEST_S = 4, 3  # deep topics
FATES = {"ack": 70, "nack": 6, "delay": 4, "reject": 2, "release": 4, "lapse": 4, "extend": 5, "hold": 4, "again": 1}
UNSENT = "unsent"  # nobody listened
Json = dict[str, Any]


async def consume(worker: Worker, number: int) -> None:
    rng, client = worker.rng("consume", number), worker.client()
    while worker.phase != STOP:
        topic = rng.choice(worker.topics)
        is_deep = topic in worker.deep
        if is_deep and worker.phase == RUN and now() // SECOND % (PILING_S + HARVEST_S) < PILING_S:
            await worker.rest(0.02)
            continue
        visibility_ms = rng.choice((1_000, 1_500, 2_500, 6_000))
        wait_ms = 0 if is_deep or rng.random() < 0.3 else rng.choice((50, 400, 1_500))
        wanted = place(topic) | {"limit": rng.choice((1, 1, 3, 10, 25)), "visibility_ms": visibility_ms}
        if wait_ms:
            wanted["wait_ms"] = wait_ms
        leaves = rng.randrange(LEAVES_ONE_IN) == 0 and worker.phase == RUN
        answer = await client.call("POST", "/dequeue", wanted, leave_after_s=rng.random() * 0.1 if leaves else None)
        found = _note_dequeue(worker, topic, wanted, answer)
        if found:
            await _end_leases(worker, client, rng, topic, found)
        elif not wait_ms or answer.status != 200:
            await worker.rest(0.02)
    client.close()


def _note_dequeue(worker: Worker, topic: str, wanted: Json, answer: Answer) -> list[Json]:
    worker.note("dequeue", topic, answer)
    outcome = "ok" if answer.status == 200 else "perhaps" if answer.is_unknown else "no"
    found: list[Json] = answer.body if outcome == "ok" else []
    rows = []
    for message in found:
        tag = tag_of(message)
        if (message["namespace"], message["topic"], message.get("body")) != (NAMESPACE, topic, body_of(tag)):
            worker.recorder.line(
                "problems", answer.began, answer.ended, "dequeue", 200, f"not as sent: {message}"[:500]
            )
        sealed = receipts.unseal(message["receipt"])
        if sealed is None or sealed[0] != message["id"]:
            worker.recorder.line(
                "problems", answer.began, answer.ended, "dequeue", 200, f"its receipt: {message}"[:500]
            )
        epoch = sealed[1] if sealed else 0
        named = ("lease_expires_at", "enqueued_at", "deliver_after")
        until, enqueued, after = (of_server(message[name], worker.offset) for name in named)
        start = (until or 0) - wanted["visibility_ms"] * 1000
        known = [message["id"], tag, message["priority"], message["attempt"], epoch]
        rows.append([*known, start, until, enqueued, after])
        message["epoch"] = epoch
    wait_ms = wanted.get("wait_ms", 0)
    worker.recorder.line(topic, "D", answer.began, answer.ended, outcome, wait_ms, wanted["limit"], rows)
    return found


async def _end_leases(worker: Worker, client: Client, rng: Random, topic: str, found: list[Json]) -> None:
    groups: dict[str, list[Json]] = defaultdict(list)
    for message in found:
        fate = "ack" if worker.phase == DRAIN else rng.choices(list(FATES), FATES.values())[0]  # type: ignore[arg-type]
        groups[fate].append(message)
    for fate, group in groups.items():
        await _end(worker, client, rng, topic, fate, group)


async def _end(worker: Worker, client: Client, rng: Random, topic: str, fate: str, group: list[Json]) -> None:
    if fate == "lapse":
        return
    if fate == "extend":
        await settle(worker, client, topic, "extend", group, visibility_ms=rng.choice((1_000, 2_000, 3_000)))
    if fate in ("hold", "extend"):
        await worker.rest(rng.uniform(0.05, 1.2))
    if fate == "nack":
        await settle(worker, client, topic, "nack", group, error="try again")
    elif fate == "delay":
        await settle(worker, client, topic, "nack", group, delay_ms=rng.randrange(0, 1_500))
    elif fate == "reject":
        await settle(worker, client, topic, "nack", group, dead=True)
    elif fate == "release":
        await settle(worker, client, topic, "release", group)
    else:
        await settle(worker, client, topic, "ack", group)
    if fate == "again":  # a late word of somebody who does not know that it is over
        await settle(worker, client, topic, rng.choice(("ack", "nack", "release", "extend")), group)


async def settle(worker: Worker, client: Client, topic: str, verb: str, group: list[Json], **more: Any) -> None:
    """Asked again while the answer is lost, as a good client does; most of the time it is patient enough."""
    for _ in range(30 if worker.phase == DRAIN else 4):
        body = [place(topic) | {"id": one["id"], "receipt": one["receipt"]} | more for one in group]
        answer = await client.call("POST", f"/{verb}", body if len(body) > 1 else body[0])
        worker.note(verb, topic, answer)
        _note_settle(worker, topic, verb, group, answer, more)
        open_ones = {row[0] for row in _outcomes(worker, group, answer) if row[2] in ("?", UNSENT)}
        group = [one for one in group if one["id"] in open_ones]
        if not group or worker.phase == STOP:
            return
        await asyncio.sleep(0.2)


def _note_settle(worker: Worker, topic: str, verb: str, group: list[Json], answer: Answer, more: Json) -> None:
    rows = _outcomes(worker, group, answer)
    worker.recorder.line(
        topic, "S", answer.began, answer.ended, verb, rows, more.get("delay_ms"), more.get("visibility_ms")
    )


def _outcomes(worker: Worker, group: list[Json], answer: Answer) -> list[list[Any]]:
    """Id, epoch, state or code or ?, and until when."""
    if not answer.was_sent:
        return [[one["id"], one["epoch"], UNSENT, None] for one in group]
    if answer.status == 200:
        told = answer.body if isinstance(answer.body, list) else [answer.body]
    elif answer.status in (404, 409) and len(group) == 1:
        told = [{"code": answer.body["code"]}]
    else:
        told = [{}] * len(group)
    rows = []
    for one, its in zip(group, told, strict=True):
        outcome = its.get("state") or its.get("code") or "?"
        until = of_server(its.get("next_attempt_at") or its.get("lease_expires_at"), worker.offset)
        rows.append([one["id"], one["epoch"], "?" if outcome == "shard_unavailable" else outcome, until])
    return rows


def _shown(what: str, message: Json) -> str:
    return f"{what}: {message}"[:500]
