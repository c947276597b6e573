"""Producers: one, some or many messages a request, at about a steady rate."""

from collections import defaultdict
from itertools import count
from random import Random
from typing import Any

from tests.faults.checker.client import Answer, Client
from tests.faults.checker.messages import keyed, plain
from tests.faults.checker.worker import RUN, Worker, is_home

LEAVES_ONE_IN = 200


async def produce(worker: Worker, number: int, rate: float) -> None:
    rng, client = worker.rng("produce", number), worker.client()
    tags = count()
    while worker.phase == RUN:
        chance = rng.random()
        size = 1 if chance < 0.6 else rng.randrange(2, 9) if chance < 0.95 else rng.randrange(20, 60)
        messages = [_message(worker, rng, f"m{worker.process}-{number}-{next(tags)}") for _ in range(size)]
        await _enqueue(worker, client, messages, leaves=rng.randrange(LEAVES_ONE_IN) == 0 and rng.random())
        await worker.rest(size / rate * rng.uniform(0.5, 1.5))
    client.close()


def _message(worker: Worker, rng: Random, tag: str) -> dict[str, Any]:
    return keyed(rng, worker.topics) if rng.random() < 0.06 else plain(rng, rng.choice(worker.topics), tag)


async def _enqueue(worker: Worker, client: Client, messages: list[dict[str, Any]], leaves: float) -> None:
    body: Any = messages if len(messages) > 1 else messages[0]
    answer = await client.call("POST", "/enqueue", body, leave_after_s=leaves * 0.02 or None)
    worker.note("enqueue", messages[0]["topic"], answer)
    told = list(_told(answer, len(messages)))
    by_topic: dict[str, list[list[Any]]] = defaultdict(list)
    for message, (message_id, outcome) in zip(messages, told, strict=True):
        topic, key = message["topic"], message.get("idempotency_key")
        if key:
            worker.recorder.line("keys", answer.began, answer.ended, key, topic, message_id, outcome)
        if message_id is not None and not is_home(message_id, topic):
            outcome = "elsewhere"  # noqa: PLW2901  its key was another topic's already
        elif message_id is not None and outcome == "ok":
            worker.recent.append((topic, message_id))
        by_topic[topic].append(
            [message["body"]["tag"], message_id, outcome, message["priority"], message.get("delay_ms"),
             message.get("ttl_ms"), key, message["max_retries"]]
        )  # fmt: skip
    for topic, rows in by_topic.items():
        worker.recorder.line(topic, "E", answer.began, answer.ended, rows)


def _told(answer: Answer, count: int) -> list[tuple[int | None, str]]:
    """Of each message its id and whether it was added, as far as the answer says."""
    if answer.status in (200, 202):
        return [(message_id, "ok") for message_id in answer.body]
    if answer.status == 503 and isinstance(answer.body, dict) and "ids" in answer.body:
        doubtful = set(answer.body["in_doubt"])
        return [
            (message_id, "no" if message_id is None else "perhaps" if index in doubtful else "ok")
            for index, message_id in enumerate(answer.body["ids"])
        ]
    return [(None, "perhaps" if answer.is_unknown else "no")] * count
