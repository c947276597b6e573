"""Minutes of traffic while something holds back the clean-up of dead rows: the last minute beside the first."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import psycopg

from bench.core import PREFILL, circulate
from bench.rows import Row, Series
from bench.service import Service
from bench.stage import Stage

PARTS = 5  # "minutes" of a run, whatever its length
CYCLE = "enqueue, dequeue and ack, 100 a request"


def scene(stage: Stage, names: set[str]) -> list[Row]:
    """Each with a service of its own."""
    return [churn(stage, name) for name in NAMES if name in names]


def churn(stage: Stage, name: str) -> Row:
    title, hold = CHURNS[name]
    row = Row(name, f"{CYCLE}, {title}", "messages/s", at_least=0.8)
    with Service() as service:
        if hold is unread_slot:
            service.restart_with(wal_level="logical")
        with hold(service.conf.shard_urls[0]):
            sample = stage.attempt(name, partial(circulate, service, stage.churn_seconds, name, PREFILL))
    if sample is None:
        return row
    each = sample.result["each_second"]
    part = max(1, len(each) // PARTS)
    first, last = sum(each[:part]) / part, sum(each[-part:]) / part
    stage.say(f"{name}: {first:,.0f}/s at first, {last:,.0f}/s at last")
    row.ours = Series(
        f"last fifth of {len(each)} s, {title}", [last], costs=[sample.cost], details={"each_second": each}
    )
    row.against = Series("first fifth", [first])
    return row


@contextmanager
def held_snapshot(shard: str) -> Iterator[None]:
    """A report that somebody left open."""
    with psycopg.connect(shard) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM delivery")
        yield


@contextmanager
def idle_writer(shard: str) -> Iterator[None]:
    """A session that has begun to write and does nothing more."""
    with psycopg.connect(shard) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        yield


@contextmanager
def unread_slot(shard: str) -> Iterator[None]:
    """A subscriber that never came back: the server keeps the log for it, and the old rows of the catalogs."""
    with psycopg.connect(shard, autocommit=True) as connection:
        connection.execute("SELECT pg_create_logical_replication_slot('bench', 'pgoutput')")
    yield


def nothing(shard: str) -> AbstractContextManager[None]:
    """For comparison: traffic alone."""
    return nullcontext()


CHURNS: dict[str, tuple[str, Callable[[str], AbstractContextManager[None]]]] = {
    "churn_nothing": ("nothing held", nothing),
    "churn_snapshot": ("a REPEATABLE READ snapshot held", held_snapshot),
    "churn_writer": ("an idle writer with a transaction id", idle_writer),
    "churn_slot": ("an unread logical replication slot", unread_slot),
}
NAMES = tuple(CHURNS)
