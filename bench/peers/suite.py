"""The driver's part: every peer's three figures beside ours, in rounds, each in a fresh database."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import psycopg
import redis

from bench import raw
from bench.child import LoadError, Sample, load, run
from bench.core import PREFILL, fill
from bench.peers.install import python
from bench.rows import Row, Series
from bench.service import Service
from bench.stage import Measure, Stage, add_round

PEERS = ("procrastinate", "pgqueuer", "pgmq", "pgmq_http", "awa", "celery", "saq")
NAMES = tuple(f"peer_{peer}" for peer in PEERS)
WORKS = {
    "single": "enqueue one by one, 64 callers",
    "batch": "enqueue 1,000 a call",
    "consume": "dequeue and ack",
}
TEMPLATE, DATABASE, REDIS_DB = "bench_peer_template", "bench_peer", 5
OURS_QUICKEST = 60_000
Ways = Mapping[str, Callable[[], Sample]]


def scene(stage: Stage, names: set[str]) -> list[Row]:
    """The servers alone and ours first in each round, then theirs."""
    wanted = [peer for peer in PEERS if f"peer_{peer}" in names]
    interpreter = python(stage.say)
    with Service() as service:
        stage.say("peers run on the same PostgreSQL and Redis, one after the other")
        ours = [postgresql(stage, service), redis_alone(stage, service), Ours(stage, service)]
        theirs = [Theirs(stage, service, peer, interpreter) for peer in wanted]
        for turn in range(stage.rounds):
            for each in (*ours, *theirs):
                for work in WORKS:
                    each.play(work, turn)
    return [row for each in (*ours, *theirs) for row in each.rows()]


class Player:
    """A queue and its series."""

    name = ""

    def __init__(self, stage: Stage, service: Service) -> None:
        self._stage, self._service = stage, service
        self.series = {work: Series(f"{self.name}: {title}") for work, title in WORKS.items()}
        self.notes: dict[str, str] = {}

    def ways(self, work: str, turn: int) -> Ways:
        """In which it can do one work; none where it has no call for it."""
        raise NotImplementedError

    def play(self, work: str, turn: int) -> None:
        if ways := self.ways(work, turn):
            series = self.series[work]
            add_round(self._stage, f"round {turn + 1}", Measure(series.title, ways), series)

    def rows(self) -> list[Row]:
        """One a work."""
        return [
            Row(
                f"peer_{self.name}_{work}",
                title,
                "messages/s",
                self.series[work],
                note=self.notes.get(work, "" if self.series[work].values else "failed"),
                group="peers",
            )
            for work, title in WORKS.items()
        ]


class Ours(Player):
    """mqueue, over HTTP."""

    name = "mqueue"

    def ways(self, work: str, turn: int) -> Ways:
        return {"": partial(self._measure, work, turn)}

    def _measure(self, work: str, turn: int) -> Sample:
        seconds, topic = self._stage.seconds, f"peers-{work}-{turn}"
        if work == "consume":
            fill(self._service, topic, int(OURS_QUICKEST * (1.3 * seconds + 0.5)) + PREFILL)
        orders: dict[str, dict[str, Any]] = {
            "single": {"script": "enqueue", "connections": 64},
            "batch": {"script": "enqueue", "connections": 2, "batch": 1000},
            "consume": {"script": "drain", "connections": 4, "limit": 100},
        }
        return load(self._service, seconds, topic=topic, **orders[work])


class Alone(Player):
    """PostgreSQL or Redis without a queue."""

    def __init__(self, stage: Stage, service: Service, name: str, ways: Mapping[str, Ways], **about: str) -> None:
        self.name = name
        super().__init__(stage, service)
        self._ways = ways
        for series in self.series.values():
            series.details.update(about)

    def ways(self, work: str, turn: int) -> Ways:
        return self._ways[work]


def postgresql(stage: Stage, service: Service) -> Alone:
    """The same rows in our tables."""
    of = (service, service.make_raw_database(), stage.seconds)
    ways = {
        "single": {f"{n} clients": partial(raw.pgbench, *of, n) for n in (1, 32, 64)},
        "batch": {"COPY": partial(raw.copy, *of)},
        "consume": {"claim and DELETE": partial(raw.claim, *of)},
    }
    return Alone(
        stage, service, "postgresql", ways,
        settings="no queue, our tables: pgbench with a transaction a message, 1, 32 or 64 clients; COPY of 1,000; "
        "claim and DELETE of 1,000, one connection",
        less="rows in two tables, no more",
    )  # fmt: skip


def redis_alone(stage: Stage, service: Service) -> Alone:
    """Commands, of which a queue needs several a message."""
    one, many = (partial(raw.redis, service, stage.seconds, *how) for how in ((64, 1), (4, 100)))
    pipelined = {"100 a round trip": many}
    ways = {"single": {"one a round trip": one}, "batch": pipelined, "consume": pipelined}
    return Alone(
        stage, service, "redis", ways,
        settings="no queue, commands a second: ZADD and ZPOPMIN, one a round trip by 64 connections; "
        "100 by 4 connections, in the two other columns",
        less="sets in memory, fsynced each second",
    )  # fmt: skip


class Theirs(Player):
    """A peer: its databases, and what it says of itself."""

    def __init__(self, stage: Stage, service: Service, name: str, interpreter: str) -> None:
        self.name = name
        super().__init__(stage, service)
        self._python = interpreter
        self._about: dict[str, Any] = {}
        self._template = f"{TEMPLATE}_{name}"
        self._renew(self._template, "template1")
        try:
            self._about = self._run("prepare", self._template, 1).result
        except LoadError as error:
            stage.say(f"{name}: cannot be prepared: {error}")
            stage.failures.append(f"{name}: {error}")
            self.notes = dict.fromkeys(WORKS, f"failed: {error}")
            return
        if not self._about["batches"]:
            self.notes["batch"] = "has no call for many"
        for series in self.series.values():
            series.details.update(self._about)

    def ways(self, work: str, turn: int) -> Ways:
        if work in self.notes:
            return {}
        return {
            f"{number} process{'es' * (number > 1)}": partial(self._measure, work, number)
            for number in self._about["at_once"][work]
        }

    def _measure(self, work: str, processes: int) -> Sample:
        """In a fresh database and an empty Redis: what an earlier measurement left would slow some of them down."""
        self._renew(DATABASE, self._template)
        redis.Redis.from_url(self._redis).flushdb()
        if work == "consume":
            messages = int(self._about["quickest"] * (1.3 * self._stage.seconds + 0.5))
            self._run("fill", DATABASE, 1, messages=messages)
            with psycopg.connect(self._service.url(DATABASE), autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE")  # as autovacuum would, had the messages come by and by
            return self._run(work, DATABASE, processes, messages=messages)
        return self._run(work, DATABASE, processes)

    def _run(self, work: str, database: str, processes: int, **more: int) -> Sample:
        url, seconds = self._service.url(database), self._stage.seconds
        spec: dict[str, Any] = {
            "peer": f"peer_{self.name}",
            "work": work,
            "database": url,
            "redis": self._redis,
            "queue": "bench",
        }
        spec |= {"seconds": seconds, "warm": seconds / 4, "processes": processes, **more}
        return run(self._service, "bench.peers.harness", spec, url, self._python)

    @property
    def _redis(self) -> str:
        return self._service.conf.redis.url.replace("db=0", f"db={REDIS_DB}")

    def _renew(self, database: str, template: str) -> None:
        with psycopg.connect(self._service.url("postgres"), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)".encode())
            connection.execute(f"CREATE DATABASE {database} TEMPLATE {template}".encode())
