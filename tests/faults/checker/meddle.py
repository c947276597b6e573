"""Those who change what waits and look after the dead letters; and who look now and then, as people do."""

from random import Random

from tests.faults.checker.client import Answer, Client
from tests.faults.checker.messages import NAMESPACE
from tests.faults.checker.worker import RUN, Worker, place

EVERY_S = 0.25


async def meddle(worker: Worker, number: int) -> None:
    rng, client = worker.rng("meddle", number), worker.client()
    while worker.phase == RUN:
        chance = rng.random()
        if chance < 0.5 and worker.recent:
            topic, message_id = rng.choice(worker.recent)
            if chance < 0.2:
                await _cancel(worker, client, topic, message_id)
            else:
                await _move(worker, client, rng, topic, message_id)
        elif chance < 0.75:
            await _tend_dead_letters(worker, client, rng, rng.choice(worker.topics))
        else:
            await _look(worker, client, rng)
        await worker.rest(EVERY_S * rng.uniform(0.5, 1.5))
    client.close()


async def _cancel(worker: Worker, client: Client, topic: str, message_id: int) -> None:
    answer = await client.call("DELETE", f"/messages/{message_id}?namespace={NAMESPACE}&topic={topic}")
    worker.note("cancel", topic, answer)
    worker.recorder.line(topic, "C", answer.began, answer.ended, message_id, _outcome(answer))


async def _move(worker: Worker, client: Client, rng: Random, topic: str, message_id: int) -> None:
    priority = rng.choice((None, 0, 3, 200))
    delay_ms = rng.randrange(0, 2_000) if priority is None or rng.random() < 0.5 else None
    wish = {"priority": priority} if priority is not None else {}
    wish |= {"delay_ms": delay_ms} if delay_ms is not None else {}
    answer = await client.call("PATCH", f"/messages/{message_id}", place(topic) | wish)
    worker.note("move", topic, answer)
    worker.recorder.line(topic, "M", answer.began, answer.ended, message_id, _outcome(answer), priority, delay_ms)


async def _tend_dead_letters(worker: Worker, client: Client, rng: Random, topic: str) -> None:
    answer = await client.call("GET", f"/dlq?namespace={NAMESPACE}&topic={topic}&limit=50")
    worker.note("dlq", topic, answer)
    if answer.status != 200 or not answer.body:
        return
    ids = [letter["id"] for letter in rng.sample(answer.body, min(len(answer.body), rng.choice((1, 1, 1, 4))))]
    verb, kind = ("replay", "R") if rng.random() < 0.7 else ("delete", "X")
    answer = await client.call("POST", f"/dlq/{verb}", place(topic) | {"ids": ids})
    worker.note(verb, topic, answer)
    done = answer.body[f"{verb}ed" if verb == "replay" else "deleted"] if answer.status == 200 else None
    many = done if done is not None else "?" if answer.is_unknown else 0
    worker.recorder.line(topic, kind, answer.began, answer.ended, ids, many)


async def _look(worker: Worker, client: Client, rng: Random) -> None:
    topic = rng.choice(worker.topics)
    path = f"/stats?namespace={NAMESPACE}&topic={topic}"
    if worker.recent and rng.random() < 0.5:
        topic, message_id = rng.choice(worker.recent)
        path = f"/messages/{message_id}{rng.choice(('', '/trace'))}?namespace={NAMESPACE}&topic={topic}"
    answer = await client.call("GET", path)
    worker.note("look", topic, answer)


def _outcome(answer: Answer) -> str:
    if answer.status == 200:
        return "ok"
    return "?" if answer.is_unknown else "no"
