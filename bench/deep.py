"""Millions of messages that wait: what a dequeue, a look and the memory make of them."""

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import psutil
import psycopg
import redis

from bench.child import Sample, load, run
from bench.core import fill
from bench.people import Person
from bench.rows import Row, Series
from bench.scripts import NAMESPACE
from bench.service import Service
from bench.stage import Measure, Stage, play

WAITING, DEAD, SHALLOW = 2_000_000, 1_000_000, 10_000
DEEP, SCHEDULED_MS = "deep", 20 * 86_400_000
DEAD_TOPICS, LOOKS, PAGES = 10, 300, 20
FIRST_DEAD = 1 << 42  # above every number that the sequence of ids will reach
BURY = """\
INSERT INTO dead_letter (id, enqueued_at, topic, day, epoch, payload_bytes, attempts, priority, is_json, payload, error,
                         reason)
SELECT (%(first)s + n) * 1024, now(), t.id, (now() AT TIME ZONE 'UTC')::date, 4, 200, 4, 5, true,
       decode(repeat('78', 200), 'hex'), 'it failed', 'max_retries'
FROM (SELECT id, row_number() OVER (ORDER BY id) AS place FROM topic WHERE name LIKE 'dead-%%') t
JOIN generate_series(1, %(count)s) n ON n %% %(topics)s = t.place - 1
"""
COUNT = "INSERT INTO tally_delta SELECT topic, 0, 0, 0, count(*) FROM dead_letter GROUP BY topic"


def scene(stage: Stage, names: set[str]) -> list[Row]:
    """One service with millions of messages for all of them."""
    rows: list[Row] = []
    with Service() as deep:
        seed(stage, deep)
        for name, part in PARTS.items():
            if name in names:
                rows += stage.attempt(name, partial(part, stage, deep)) or []
    return rows


def seed(stage: Stage, service: Service) -> None:
    """Ready messages, and as many more urgent ones that are due much later."""
    count = stage.scaled(WAITING)
    for kind, fields in ("ready", {}), ("scheduled", {"priority": 0, "delay_ms": SCHEDULED_MS}):
        sample = fill(service, DEEP, count, **fields)
        stage.say(f"{count:,} {kind} messages put in: {sample.rate:,.0f}/s")


def deep_topic(stage: Stage, deep: Service) -> list[Row]:
    """Dequeue and ack while as many are put in again, in the deep topic and in a shallow one of another service."""
    with Service() as shallow:
        fill(shallow, DEEP, SHALLOW)
        return [compare(stage, deep, shallow)]


def compare(stage: Stage, deep: Service, shallow: Service) -> Row:
    count = stage.scaled(WAITING)
    ours, against = play(
        stage,
        [
            Measure("dequeue and ack, 100 a request, of a deep topic", {"": partial(hold, stage, deep, count)}),
            Measure(f"the same of {SHALLOW:,}", {"": partial(hold, stage, shallow, SHALLOW)}),
        ],
    )
    title = f"{count:,} ready, {count:,} scheduled and more urgent"
    return Row("deep_topic", title, "messages/s", ours, against, at_least=0.8)


def hold(stage: Stage, service: Service, depth: int) -> Sample:
    """Four consumers with 100 a request; two producers with 1,000 a request keep the depth."""
    orders = {"producers": 2, "consumers": 4, "batch": 1000, "limit": 100, "depth": depth, "backlog": depth}
    return load(service, stage.seconds, "circulate", topic=DEEP, **orders)


def memory(stage: Stage, service: Service) -> list[Row]:
    """Resident memory while the topic is consumed, shared pages counted for each process that has them."""
    hold(stage, service, stage.scaled(WAITING))
    found = {part: resident(service.pid_of(part)) for part in ("api", "daemons", "celery", "metrics")}
    found["redis"] = float(redis.Redis.from_url(service.conf.redis.url).info()["used_memory_rss"])
    ceilings = {"api": 200, "daemons": 200, "redis": 100}
    stage.say("memory: " + ", ".join(f"{part} {size / 1e6:.0f} MB" for part, size in found.items()))
    return [
        Row(f"memory_{part}", part, "MB", Series(f"memory of {part}", [size / 1e6]), at_most=ceilings.get(part))
        for part, size in found.items()
    ]


def resident(pid: int) -> float:
    leader = psutil.Process(pid)
    return float(sum(process.memory_info().rss for process in [leader, *leader.children(recursive=True)]))


def looks(stage: Stage, service: Service) -> list[Row]:
    """The counts of the topics, and pages of dead letters from random places."""
    dead = bury(stage, service)
    after = [(FIRST_DEAD + random.randrange(dead)) * 1024 for _ in range(LOOKS)]
    paths = {
        "stats": [f"/stats?namespace={NAMESPACE}"] * LOOKS,
        "dlq": [f"/dlq?namespace={NAMESPACE}&limit=100&after={place}" for place in after],
    }
    series = {name: Series(f"/{name}, p99") for name in paths}
    for _ in range(stage.rounds):
        for name, wanted in paths.items():
            sample = look(service, wanted)
            stage.say(f"/{name}: p50 {sample.result['p50']:.1f} ms, p99 {sample.result['p99']:.1f} ms")
            series[name].values.append(sample.result["p99"])
            series[name].costs.append(sample.cost)
    rows = [Row(f"looks_{name}", each.title, "ms", each, at_most=50) for name, each in series.items()]
    return rows + pages(stage, service)


def pages(stage: Stage, service: Service) -> list[Row]:
    """What somebody sees in the admin of as many."""
    person, letters = Person(service), f"/admin/messages/{NAMESPACE}/dlq/"
    paths = {
        "admin": (f"the admin's list of dead letters, slowest of {PAGES}", letters),
        "admin_search": (
            f"the admin's search for a word in their errors, slowest of {PAGES}",
            f"{letters}?error=failed",
        ),
        "admin_nothing": (f"the same for a word that is in none, slowest of {PAGES}", f"{letters}?error=nowhere"),
    }
    rows = []
    for name, (title, path) in paths.items():
        series = Series(title)
        for _ in range(stage.rounds):
            series.values.append(max(1000 * person.seconds_for(path) for _ in range(PAGES)))
        stage.say(f"{title}: {series.median():.0f} ms")
        rows.append(Row(f"looks_{name}", title, "ms", series))
    return rows


def bury(stage: Stage, service: Service) -> int:
    """Dead letters as the lease daemon would have left them, with their counts."""
    fill(service, "dead", 1000, topics=DEAD_TOPICS)
    count, began = stage.scaled(DEAD), time.monotonic()
    with psycopg.connect(service.conf.shard_urls[0]) as connection:
        connection.execute(BURY, {"first": FIRST_DEAD, "count": count, "topics": DEAD_TOPICS})
        connection.execute(COUNT)
    with psycopg.connect(service.conf.shard_urls[0], autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE dead_letter")  # as autovacuum would by the time that there are so many
    stage.say(f"{count:,} dead letters made in {time.monotonic() - began:.0f} s")
    return count


def look(service: Service, paths: list[str]) -> Sample:
    """One after the other."""
    orders: dict[str, Any] = {"ports": service.ports, "token": service.token, "work": "looks", "paths": paths}
    return run(service, "bench.latency_load", orders, service.conf.shard_urls[0])


PARTS: dict[str, Callable[[Stage, Service], list[Row]]] = {"deep_topic": deep_topic, "memory": memory, "looks": looks}
NAMES = tuple(PARTS)
