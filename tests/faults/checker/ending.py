"""How it ended: what SQL says of every message, what /stats says, whether the counts are those of the rows, and whether
everybody is still there."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from mqueue.core.conf import ROOT
from shards.sql import statement
from tests.faults.checker.messages import NAMESPACE
from tests.faults.checker.stage import Stage

CLOCK_GRAIN_US = 2_000
CELERY_S = 30.0
MESSAGES = """
SELECT id, state, attempts, payload, idempotency_key FROM mq.messages WHERE namespace = %s AND topic = %s ORDER BY id
"""
DEAD = "SELECT id, reason, attempts FROM mq.dead_letters WHERE namespace = %s AND topic = %s"
DEPTH = "SELECT ready, scheduled, leased, dead FROM mq.depth WHERE namespace = %s AND topic = %s"


class End(NamedTuple):
    """A message as SQL shows it at the end."""

    id: int
    tag: str
    state: str
    attempts: int | None
    reason: str | None
    key: str | None


def write_down(stage: Stage, folder: Path, clock_moved_us: int) -> None:
    """After the drain. A file a topic, and one of what is wrong besides."""
    wrong = [f"the wall clock was set by {clock_moved_us} us meanwhile"] if clock_moved_us > CLOCK_GRAIN_US else []
    for topic in stage.topics:
        with psycopg.connect(stage.shards[stage.shard_of(topic)].url) as connection:
            _write_messages(connection, topic, folder)
            depth = connection.execute(DEPTH, [NAMESPACE, topic]).fetchone()
        shown = _stats(stage, topic)
        if depth is not None and shown != depth:
            wrong.append(f"/stats of {topic} says {shown}, and the rows {depth}")
    for shard in stage.shards:
        with psycopg.connect(shard.url) as connection:
            differing = connection.execute(statement("recount")).fetchall()
            connection.rollback()
        wrong += [f"counts of {shard.name} differ from its rows: {row}" for row in differing]
    if not _celery_answers(stage):
        wrong.append("Celery answers no ping")
    (folder / "leftovers.json").write_text(json.dumps(wrong))


def _write_messages(connection: "psycopg.Connection[Any]", topic: str, folder: Path) -> None:
    reasons = {row[0]: row[1:] for row in connection.execute(DEAD, [NAMESPACE, topic])}
    with open(folder / f"end-{topic}.jsonl", "w") as file, connection.cursor(name="ends") as cursor:
        cursor.execute(MESSAGES, [NAMESPACE, topic])
        for message_id, state, attempts, payload, key in cursor:
            tag = re.search(r'"tag": ?"([^"]*)"', payload)
            reason, dead_attempts = reasons.get(message_id, (None, None))
            end = End(message_id, tag[1] if tag else "", state, dead_attempts or attempts, reason, key)
            file.write(json.dumps(end) + "\n")


def _celery_answers(stage: Stage) -> bool:
    """It takes no part in the traffic, and may be deaf without anybody's noticing. Where its line died without a word a
    moment ago, it has to find out first."""
    command = [sys.executable, "-m", "celery", "--app", "mqueue.celery", "inspect", "ping", "--timeout", "5"]
    deadline = time.monotonic() + CELERY_S
    while subprocess.run(command, cwd=ROOT, env=stage.service.env, capture_output=True).returncode:
        if time.monotonic() > deadline:
            return False
    return True


def _stats(stage: Stage, topic: str) -> tuple[int, int, int, int] | None:
    with stage.service.client() as http:
        answer = http.get("/stats", params={"namespace": NAMESPACE, "topic": topic})
        for one in answer.json()["topics"]:
            return one["ready"], one["scheduled"], one["leased"], one["dead"]
    return None


def waiting(stage: Stage) -> int:
    """How many messages are not settled yet."""
    with stage.service.client() as http:
        answer = http.get("/stats", params={"namespace": NAMESPACE})
        if answer.status_code != 200:
            return -1
        return sum(one["ready"] + one["scheduled"] + one["leased"] for one in answer.json()["topics"])


def ends(folder: Path, topic: str) -> Iterator[End]:
    with open(folder / f"end-{topic}.jsonl") as file:
        for line in file:
            yield End(*json.loads(line))


def leftovers(folder: Path) -> list[str]:
    found: list[str] = json.loads((folder / "leftovers.json").read_text())
    return found
