"""How the figures change with connections, batch size, payload, topics, shards, waiting messages and API workers."""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from bench import raw
from bench.child import Sample, load
from bench.core import QUICKEST, fill
from bench.rows import LIMIT, Curve, Found
from bench.service import Service
from bench.stage import Stage, try_once

Ways = Mapping[str, Callable[[], Sample]]
Points = Iterator[tuple[float, Ways]]
SPREAD = 64  # topics, so that every shard has some
MOST_CLIENTS = 128  # of pgbench, each a session of the server


def scene(stage: Stage, names: set[str]) -> list[Found]:
    """One curve after the other."""
    return [draw(stage, name) for name in NAMES if name in names]


def draw(stage: Stage, name: str) -> Curve:
    """Measure every point once."""
    title, size, points = CURVES[name]
    curve = Curve(name, title, size, "messages/s")
    stage.attempt(title, partial(trace, stage, curve, points(stage)))
    return curve


def trace(stage: Stage, curve: Curve, points: Points) -> None:
    """Add the points; those that were found stay, whatever becomes of the others."""
    for x, ways in points:
        found: dict[str, tuple[float | None, dict[str, Any]]] = {}
        for line, way in ways.items():
            sample = try_once(stage, f"{line}, {x:,.0f} {curve.size}", way)
            found[line] = (sample.rate, sample.cost) if sample else (None, {})
        curve.add(x, found)


def topic() -> str:
    """A new one."""
    return f"scaling-{time.monotonic_ns()}"


def enqueue(stage: Stage, service: Service, **orders: Any) -> Sample:
    """Into topics that are known: a new one costs a look into the control database, once."""
    name, topics = topic(), orders.get("topics", 1)
    fill(service, name, max(1000, topics), topics)
    return load(service, stage.seconds, "enqueue", topic=name, **orders)


def drain(stage: Stage, service: Service, **orders: Any) -> Sample:
    """Of topics that have enough."""
    name, topics = topic(), orders.get("topics", 1)
    wanted = int(QUICKEST * (1.3 * stage.seconds + 0.2) * len(str(orders.get("limit", 1))))
    fill(service, name, max(wanted, topics), topics)
    return load(service, stage.seconds, "drain", topic=name, **orders)


def circulate(stage: Stage, service: Service, orders: dict[str, Any]) -> Sample:
    """Four consumers, and as many producers as keep the depth."""
    return load(service, stage.seconds, "circulate", **{"topic": topic(), "producers": 2, "consumers": 4} | orders)


def connections(stage: Stage) -> Points:
    with Service() as service:
        database = service.make_raw_database()
        for n in (1, 2, 4, 8, 16, 32, 64, 128, 256):
            ways = {
                "enqueue, one a request": partial(enqueue, stage, service, connections=n),
                "dequeue and ack, one a request": partial(drain, stage, service, connections=n),
            }
            if n <= MOST_CLIENTS:
                ways[f"{LIMIT}pgbench, one message a transaction"] = partial(
                    raw.pgbench, service, database, stage.seconds, n
                )
            yield n, ways


def batches(stage: Stage) -> Points:
    with Service() as service:
        database = service.make_raw_database()
        for n in (1, 10, 100, 1_000, 10_000):
            ways = {
                "enqueue, 4 connections": partial(enqueue, stage, service, connections=4, batch=n),
                f"{LIMIT}COPY, as many a transaction, one connection": partial(
                    raw.copy, service, database, stage.seconds, batch=n
                ),
            }
            if n <= 1_000:
                ways["dequeue and ack, 4 connections"] = partial(drain, stage, service, connections=4, limit=n)
                ways[f"{LIMIT}claim and DELETE, as many, one connection"] = partial(
                    raw.claim, service, database, stage.seconds, batch=n
                )
            yield n, ways


def payloads(stage: Stage) -> Points:
    with Service() as service:
        database = service.make_raw_database()
        for n in (100, 1_024, 4_096, 16_384, 65_536, 262_144):
            few: dict[str, Any] = {"payload": n, "batch": 10}
            cycle = few | {"producers": 4, "limit": 10, "depth": 200}
            yield (
                n,
                {
                    "enqueue, 10 a request, 8 connections": partial(enqueue, stage, service, connections=8, **few),
                    "full cycle, 10 a request": partial(circulate, stage, service, cycle),
                    f"{LIMIT}COPY, 10 a transaction, one connection": partial(
                        raw.copy, service, database, stage.seconds, **few
                    ),
                },
            )


def topics(stage: Stage) -> Points:
    with Service() as service:
        database = service.make_raw_database()
        for n in (1, 10, 100, 1_000, 10_000, 100_000):
            if n <= max(1_000, 100_000 * stage.scale):
                many = {"connections": 64, "topics": n}
                yield (
                    n,
                    {
                        "enqueue, one a request, 64 connections": partial(enqueue, stage, service, **many),
                        "dequeue and ack, one a request, 64 connections": partial(drain, stage, service, **many),
                        f"{LIMIT}pgbench, one message a transaction, 64 clients": partial(
                            raw.pgbench, service, database, stage.seconds, 64, raw.MANY_TOPICS, topics=n
                        ),
                    },
                )


def shards(stage: Stage) -> Points:
    for n in (1, 2, 4, 8):
        with Service(shards=n) as service:
            yield n, spread(stage, service)


def workers(stage: Stage) -> Points:
    for n in (1, 2, 3, 4):
        with Service(workers=n) as service:
            yield n, spread(stage, service)


def spread(stage: Stage, service: Service) -> Ways:
    """Over topics, and so over shards; the limits in one database."""
    database = service.make_raw_database()
    single = partial(raw.pgbench, service, database, stage.seconds, 64, raw.MANY_TOPICS, topics=SPREAD)
    one, some = {"connections": 64, "topics": SPREAD}, {"connections": 4, "topics": SPREAD}
    return {
        "enqueue, one a request, 64 connections": partial(enqueue, stage, service, **one),
        "enqueue, 1,000 a request, 4 connections": partial(enqueue, stage, service, batch=1000, **some),
        "dequeue and ack, one a request, 64 connections": partial(drain, stage, service, **one),
        "dequeue and ack, 100 a request, 4 connections": partial(drain, stage, service, limit=100, **some),
        f"{LIMIT}pgbench, one message a transaction, 64 clients": single,
        f"{LIMIT}COPY, 1,000 a transaction, one connection": partial(raw.copy, service, database, stage.seconds),
        f"{LIMIT}claim and DELETE, 100, one connection": partial(
            raw.claim, service, database, stage.seconds, batch=100
        ),
    }


def waiting(stage: Stage) -> Points:
    """In one topic, which grows."""
    there, name = 0, topic()
    with Service() as service:
        database = service.make_raw_database()
        for n in (0, 1_000, 10_000, 100_000, 1_000_000, 10_000_000):
            depth = n if n <= 10_000 else stage.scaled(n)
            if depth > there:
                fill(service, name, depth - there)
            elif n:
                continue  # the scale has made this one as small as the one before
            more, there = depth - there, depth
            orders = {"topic": name, "batch": 1000, "limit": 100, "backlog": depth, "depth": max(1, depth)}
            yield (
                depth,
                {
                    "dequeue and ack, 100 a request, refilled": partial(circulate, stage, service, orders),
                    f"{LIMIT}COPY, claim and DELETE, 1,000, one connection": partial(
                        raw.cycle, service, database, stage.seconds, depth=more
                    ),
                },
            )


CURVES: dict[str, tuple[str, str, Callable[[Stage], Points]]] = {
    "curve_connections": ("more connections", "connections", connections),
    "curve_batch": ("larger batches", "messages a request", batches),
    "curve_payload": ("larger payloads", "bytes of payload", payloads),
    "curve_topics": ("more topics", "topics", topics),
    "curve_shards": ("more shards on one machine", "shards", shards),
    "curve_waiting": ("more messages that wait", "messages waiting", waiting),
    "curve_workers": ("more API workers on one machine", "API workers", workers),
}
NAMES = tuple(CURVES)
