"""Slots move to another shard: under traffic, killed at every step, undone, and two movers at once."""

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import httpx
import psycopg
import pytest
from psycopg import sql

from mqueue.core.conf import ROOT
from shards.routing import SLOTS, slot_of
from shards.sql import statement
from tests.acceptance.calls import dead_letters, depth, die, get, put, settle, state_of
from tests.faults.traffic import NAMESPACE, Traffic
from tests.servers import running, worker_number
from tests.service import Service

pytestmark = pytest.mark.fault
MINE = "moving"
LINES = (
    "step watch", "step copy", "copied message", "copied delivery", "step compare", "compared", "step switch", "paused",
    "gone", "switched", "step clean", "deleted",
)  # fmt: skip
UNDONE = ("step copy", "copied delivery", "compared", "paused", "gone", "switched")
AFTER_THE_HILL = LINES[LINES.index("gone") :]


class Deployment:
    """Three shards, of which the slot map uses two, and a service on them."""

    def __init__(self, folder: Path) -> None:
        servers, self._prefix = running(), f"r{worker_number()}_{os.urandom(3).hex()}"
        servers.clone(self._prefix)
        self.env = servers.environment(self._prefix, 16 + worker_number())
        self.env["DATABASE_URLS"] += "," + servers.url(f"{self._prefix}_shard_2")
        self.urls = self.env["DATABASE_URLS"].split(",")
        self.service = Service(folder / "data", self.env | {"MQUEUE_API_WORKERS": "2"})

    def drop(self) -> None:
        self.service.end()
        running().drop(self._prefix)
        name = sql.Identifier(f"{self._prefix}_shard_2")
        running().execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def reshard(self, *arguments: str, killed_at: str | None = None) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "manage.py", "reshard", *arguments]
        if killed_at:
            command = [sys.executable, "-m", "tests.faults.killed_mover", killed_at, *arguments]
        env = dict(os.environ) | self.service.env
        return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=90)

    def owner(self, slot: int) -> int:
        with psycopg.connect(self.env["CONTROL_DATABASE_URL"]) as connection:
            row: Any = connection.execute("SELECT owners FROM slot_map ORDER BY version DESC LIMIT 1").fetchone()
            return int(row[0][slot])

    def pause_ms(self) -> float:
        with psycopg.connect(self.env["CONTROL_DATABASE_URL"]) as connection:
            row: Any = connection.execute("SELECT pause_ms FROM slot_move ORDER BY id DESC LIMIT 1").fetchone()
            return float(row[0])

    def rows(self, shard: int, slots: set[int]) -> int:
        """Of these slots, in all tables that are theirs."""
        query = " UNION ALL ".join(
            f"SELECT id % {SLOTS} FROM {table}" for table in ("message", "delivery", "dead_letter", "event", "keyed")
        )
        query += " UNION ALL SELECT slot_of(namespace, key) FROM idempotency"
        query += " UNION ALL SELECT slot_of(namespace, name) FROM topic"
        with psycopg.connect(self.urls[shard]) as connection:
            return sum(row[0] in slots for row in connection.execute(query).fetchall())

    def wrong_counts(self) -> list[Any]:
        found = []
        for url in self.urls:
            with psycopg.connect(url) as connection:
                found += connection.execute(statement("recount")).fetchall()
        return found


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("reshard")
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)
    deployment = Deployment(folder)
    try:
        deployment.service.start()
        yield deployment
    finally:
        deployment.drop()


@pytest.fixture
def http(deployment: Deployment) -> Iterator[httpx.Client]:
    with deployment.service.client() as http:
        yield http


class Orderly:
    """The only producer and the only consumer of some topics: it knows which message has to come next."""

    def __init__(self, service: Service, topics: list[str]) -> None:
        self._service, self._topics, self._stop = service, topics, threading.Event()
        self.taken, self.problems = 0, list[str]()
        self.slowest_s = 0.0
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        rng = random.Random(7)
        waiting: dict[str, list[tuple[int, int]]] = {topic: [] for topic in self._topics}
        with self._service.client() as http:
            while not self._stop.is_set() and not self.problems:
                topic = rng.choice(self._topics)
                priorities = [rng.randrange(4) for _ in range(5)]
                batch = [{"namespace": MINE, "topic": topic, "body": 1, "priority": number} for number in priorities]
                ids = self._call(http, "/enqueue", batch)
                waiting[topic] += list(zip(priorities, ids, strict=True))
                for _ in range(rng.randrange(8)):
                    waiting[topic].sort()
                    found = self._call(http, "/dequeue", {"namespace": MINE, "topic": topic, "visibility_ms": 60_000})
                    expected = [waiting[topic].pop(0)] if waiting[topic] else []
                    if [(one["priority"], one["id"]) for one in found] != expected:
                        self.problems.append(f"{topic}: {found} instead of {expected}")
                    if found:
                        self._call(http, "/ack", found)
                        self.taken += 1

    def _call(self, http: httpx.Client, path: str, body: Any) -> Any:
        began = time.monotonic()
        answer = http.post(path, json=body)
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        if answer.status_code != 200:
            self.problems.append(f"{path}: {answer.status_code} {answer.text[:200]}")
            return []
        return answer.json()


def test_slots_move_under_traffic(deployment: Deployment, http: httpx.Client) -> None:
    """Nothing lost, nothing twice, in order, no request refused, and none longer than a second."""
    topics = ["a", "b", "c", "d"]
    slots = {slot_of(MINE, topic) for topic in topics} | {slot_of(NAMESPACE, f"t{n}") for n in range(3)}
    kept = {name: put(http, MINE, name, idempotency_key=f"key-{name}") for name in ("kept-1", "kept-2", "kept-3")}
    slots |= {slot_of(MINE, name) for name in (*kept, *(f"key-{name}" for name in kept))}
    text = ",".join(map(str, sorted(slots)))
    traffic = Traffic(deployment.service, visibility_ms=30_000)
    with traffic, Orderly(deployment.service, topics) as orderly:
        deployment.service.until(lambda: orderly.taken > 20, 30, "messages come and go")
        before, usual_s = orderly.taken, max(traffic.slowest_s, orderly.slowest_s)
        done = deployment.reshard("move", "--slots", text, "--to", "2", "--grace-s", "1")
        assert done.returncode == 0, done.stdout + done.stderr
        there = orderly.taken
        deployment.service.until(lambda: orderly.taken > there + 20, 30, "messages come and go")
    assert not orderly.problems, orderly.problems[:3]
    assert there > before
    traffic.verdict()
    assert not traffic.again
    assert not traffic.refused
    assert deployment.pause_ms() < 1000
    assert max(traffic.slowest_s, orderly.slowest_s) < 1.0 + usual_s  # what a busy machine does to them anyway
    assert "the same on both sides" in done.stdout
    assert {deployment.owner(slot) for slot in slots} == {2}
    assert deployment.rows(0, slots) == deployment.rows(1, slots) == 0
    for name, number in kept.items():
        assert put(http, MINE, f"{name}-again", idempotency_key=f"key-{name}") == number
        assert state_of(http, number, MINE, name) == "ready"
    assert deployment.wrong_counts() == []


def test_every_state_of_a_message_moves_and_every_verb_goes_on(deployment: Deployment, http: httpx.Client) -> None:
    topic = "states"
    slot = slot_of(MINE, topic)
    there = (deployment.owner(slot) + 1) % 3
    dead, gone = die(http, MINE, topic), die(http, MINE, topic)
    first, second, third, fourth = (put(http, MINE, topic, priority=n) for n in range(4))
    held = get(http, MINE, topic, limit=3, visibility_ms=60_000)
    assert [one["id"] for one in held] == [first, second, third]
    settle(http, "ack", held[0])
    later, cancelled = put(http, MINE, topic, delay_ms=3_600_000), put(http, MINE, topic)
    place = f"namespace={MINE}&topic={topic}"
    assert http.delete(f"/messages/{cancelled}?{place}").status_code == 200
    counted = depth(http, MINE, topic)
    done = deployment.reshard("move", "--slots", str(slot), "--to", str(there), "--grace-s", "0.5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert deployment.owner(slot) == there

    assert depth(http, MINE, topic) == counted == {"ready": 1, "scheduled": 1, "leased": 2, "dead": 2}
    states = {
        first: "acked",
        second: "leased",
        fourth: "ready",
        later: "scheduled",
        dead: "dead",
        cancelled: "cancelled",
    }
    assert {number: state_of(http, number, MINE, topic) for number in states} == states
    assert settle(http, "ack", held[0]).json() == {"id": first, "state": "acked"}  # again
    assert settle(http, "ack", held[1]).json() == {"id": second, "state": "acked"}
    assert settle(http, "extend", held[2], visibility_ms=60_000).json()["state"] == "extended"
    assert settle(http, "nack", held[2], delay_ms=0).json()["state"] == "retrying"
    assert [one["id"] for one in get(http, MINE, topic, limit=5)] == [third, fourth]
    assert http.patch(f"/messages/{later}", json={"namespace": MINE, "topic": topic, "delay_ms": 0}).status_code == 200
    assert [one["id"] for one in dead_letters(http, MINE, topic=topic)] == sorted([dead, gone])
    choice = {"namespace": MINE, "topic": topic}
    assert http.post("/dlq/delete", json=choice | {"id": gone}).json() == {"deleted": 1}
    assert http.post("/dlq/replay", json=choice | {"id": dead}).json() == {"replayed": 1}
    assert {one["id"] for one in get(http, MINE, topic, limit=5)} == {later, dead}
    events = http.get(f"/messages/{first}/trace?{place}").json()["events"]
    assert [event["event"] for event in events] == ["published", "delivered", "acked"]
    listed = http.get(f"/stats?namespace={MINE}").json()["topics"]
    assert len(listed) == len({one["topic"] for one in listed})
    assert deployment.wrong_counts() == []


@pytest.mark.parametrize("line", LINES)
def test_a_mover_that_was_killed_is_resumed(deployment: Deployment, http: httpx.Client, line: str) -> None:
    topic = f"killed-{LINES.index(line)}"
    slot = slot_of(MINE, topic)
    here = deployment.owner(slot)
    there = (here + 1) % 3
    ids = [put(http, MINE, topic, idempotency_key=f"{topic}-{n}") for n in range(4)]
    killed = deployment.reshard("move", "--slots", str(slot), "--to", str(there), "--grace-s", "0.5", killed_at=line)
    assert killed.returncode == -9, killed.stdout + killed.stderr
    assert "not finished" in deployment.reshard("status").stdout
    if line not in ("gone", "paused"):  # nobody is in the way of those who go on
        ids.append(put(http, MINE, topic))
        ids.remove(take_and_ack(http, topic))
    resumed = deployment.reshard("resume", "--grace-s", "0.5")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert deployment.owner(slot) == there
    assert deployment.rows(here, {slot}) == 0
    assert [take_and_ack(http, topic) for _ in ids] == ids
    assert get(http, MINE, topic) == []
    assert deployment.wrong_counts() == []


@pytest.mark.parametrize("line", UNDONE)
def test_a_mover_that_was_killed_is_undone(deployment: Deployment, http: httpx.Client, line: str) -> None:
    topic = f"undone-{LINES.index(line)}"
    slot = slot_of(MINE, topic)
    here = deployment.owner(slot)
    there = (here + 2) % 3
    ids = [put(http, MINE, topic) for n in range(4)]
    killed = deployment.reshard("move", "--slots", str(slot), "--to", str(there), "--grace-s", "0.5", killed_at=line)
    assert killed.returncode == -9, killed.stdout + killed.stderr
    undone = deployment.reshard("undo", "--grace-s", "0.5")
    assert undone.returncode == 0, undone.stdout + undone.stderr
    assert ("it is switched already" in undone.stdout) == (line in AFTER_THE_HILL)
    assert deployment.owner(slot) == here
    assert deployment.rows(there, {slot}) == 0
    assert [take_and_ack(http, topic) for _ in ids] == ids
    assert deployment.wrong_counts() == []


def take_and_ack(http: httpx.Client, topic: str) -> int:
    (found,) = get(http, MINE, topic, wait_ms=2_000)
    assert settle(http, "ack", found).json()["state"] == "acked"
    return int(found["id"])


def test_a_second_move_is_refused(deployment: Deployment, http: httpx.Client) -> None:
    slot = slot_of(MINE, "refused")
    there = (deployment.owner(slot) + 1) % 3
    assert deployment.reshard("move", "--slots", str(slot), "--to", str(there), killed_at="step copy").returncode == -9
    second = deployment.reshard("move", "--slots", str((slot + 1) % SLOTS), "--to", str(there))
    assert second.returncode != 0
    assert "is not finished: `reshard resume` or `reshard undo` it first" in second.stderr
    command = [sys.executable, "manage.py", "reshard", "resume", "--grace-s", "5"]
    env = dict(os.environ) | deployment.service.env
    with subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True) as at_work:
        assert at_work.stdout
        assert "slots" in at_work.stdout.readline()
        beside = deployment.reshard("resume")
        assert beside.returncode != 0
        assert "another `manage.py reshard` is at work" in beside.stderr
        at_work.stdout.read()
    assert at_work.returncode == 0


def test_a_plan_a_dry_run_and_a_shard_that_is_not_there(deployment: Deployment) -> None:
    planned = deployment.reshard("plan", "--to-shards", "3")
    assert "to shard 2" in planned.stdout
    before = [deployment.owner(slot) for slot in (0, 511, 1023)]
    dry = deployment.reshard("move", "--to-shards", "3", "--dry-run")
    assert "would move" in dry.stdout
    assert [deployment.owner(slot) for slot in (0, 511, 1023)] == before
    refused = deployment.reshard("move", "--slots", "0-3", "--to", "7")
    assert refused.returncode != 0
    assert "there is no shard 7" in refused.stderr
