"""The core rows: enqueue, dequeue with ack, and the full cycle, each beside PostgreSQL without a queue around it."""

from collections.abc import Callable
from functools import partial
from typing import Any

from bench import raw
from bench.child import Sample, load
from bench.rows import Row, Series
from bench.service import Service
from bench.stage import Measure, Stage, play

PREFILL = 20_000
QUICKEST = 25_000  # messages a second that a drain may reach: as many are put in before it
Wanted = tuple[str, str, str | None, float | None, float | None]
ROWS: tuple[Wanted, ...] = (  # name, what of ours, beside which limit, at least, at best
    ("single_enqueue", "enqueue", "pgbench", 1.0, 1.5),
    ("single_tight", "enqueue", "tight", None, None),
    ("single_cycle", "drain", "pgbench", 0.7, None),
    ("batch_enqueue", "batch", "copy", 0.6, 0.8),
    ("full_cycle", "cycle", "raw_cycle", 0.25, 0.45),
    ("redis_single", "redis", None, None, None),
    ("redis_pipelined", "redis_pipelined", None, None, None),
)
NAMES = tuple(name for name, *_ in ROWS)


def scene(stage: Stage, names: set[str]) -> list[Row]:
    """Rounds of the wanted rows' measurements."""
    wanted = [row for row in ROWS if row[0] in names]
    with Service() as service:
        measures = Core(stage, service).measures()
        keys = [key for key in measures if any(key in row[1:3] for row in wanted)]
        found = dict(zip(keys, play(stage, [measures[key] for key in keys]), strict=True))
    return [as_row(found, row) for row in wanted]


def as_row(found: dict[str, Series], row: Wanted) -> Row:
    name, ours, limit, at_least, goal = row
    against = found[limit] if limit else None
    unit = "commands/s" if name.startswith("redis") else "messages/s"
    return Row(name, found[ours].title, unit, found[ours], against, at_least=at_least, goal=goal)


class Core:
    """One service, and a database beside its shard for the raw limits."""

    def __init__(self, stage: Stage, service: Service) -> None:
        self._stage, self._service = stage, service
        self._raw = service.make_raw_database()
        self._topics = 0

    def measures(self) -> dict[str, Measure]:
        """In the order in which a round takes them."""
        seconds, service, database = self._stage.seconds, self._service, self._raw
        one = {f"{n} connections": partial(self._enqueue, n, 0) for n in (64, 128)}
        many = {f"{n} connections": partial(self._enqueue, n, 1000) for n in (2, 4)}
        raw_one = {f"{n} clients": partial(raw.pgbench, service, database, seconds, n) for n in (1, 32, 64)}
        tight = partial(raw.pgbench, service, database, seconds, 64, raw.TIGHT)
        full = "enqueue, dequeue and ack, 100 a request, 4 producers and 4 consumers"
        return {
            "enqueue": Measure("enqueue, one a request", one),
            "pgbench": Measure("pgbench, one message a transaction", raw_one),
            "tight": Measure("pgbench, both rows in one statement", {"64 clients": tight}),
            "drain": Measure("dequeue and ack, one a request, 64 connections", {"": self._drain}),
            "batch": Measure("enqueue, 1,000 a request", many),
            "copy": limit("COPY of prebuilt rows, 1,000 a transaction", raw.copy, service, database, seconds),
            "cycle": Measure(full, {"": self._cycle}),
            "raw_cycle": limit(
                "COPY, claim and DELETE, 1,000 each, one connection",
                raw.cycle,
                service,
                database,
                seconds,
                depth=PREFILL,
            ),
            "redis": limit("ZADD and ZPOPMIN, one a round trip, 64 connections", raw.redis, service, seconds, 64, 1),
            "redis_pipelined": limit(
                "ZADD and ZPOPMIN, 100 a round trip, 4 connections", raw.redis, service, seconds, 4, 100
            ),
        }

    def _topic(self) -> str:
        """A new one for each measurement, so that none finds what another has left."""
        self._topics += 1
        return f"core-{self._topics}"

    def _enqueue(self, connections: int, batch: int) -> Sample:
        orders = {"connections": connections, "batch": batch, "topic": self._topic()}
        return load(self._service, self._stage.seconds, "enqueue", **orders)

    def _drain(self) -> Sample:
        topic = self._topic()
        fill(self._service, topic, int(QUICKEST * (1.3 * self._stage.seconds + 0.2)))
        return load(self._service, self._stage.seconds, "drain", connections=64, topic=topic)

    def _cycle(self) -> Sample:
        return circulate(self._service, self._stage.seconds, self._topic(), PREFILL)


def limit(title: str, work: Callable[..., Sample], *of: Any, **more: Any) -> Measure:
    """A raw limit, which there is one way to measure."""
    return Measure(title, {"": partial(work, *of, **more)})


def circulate(service: Service, seconds: float, topic: str, depth: int, batch: int = 100) -> Sample:
    """The full cycle in steady state: so many messages wait all the while."""
    fill(service, topic, depth)
    orders = {"producers": 4, "consumers": 4, "batch": batch, "limit": batch, "depth": depth, "backlog": depth}
    return load(service, seconds, "circulate", topic=topic, **orders)


def fill(service: Service, topic: str, messages: int, topics: int = 1, **fields: object) -> Sample:
    """Put so many messages into a topic, or into several in turn, 1,000 a request."""
    orders = {"connections": 4, "batch": 1000, "topic": topic, "topics": topics, "most": messages, "fields": fields}
    return load(service, 0, "fill", **orders)
