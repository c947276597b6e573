"""Ending days of the log: which there are, which still matter, and dropping one without stopping anybody."""

import datetime
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from mqueue.core.conf import DAY_MS, Conf
from shards.sql import statement

Connection = psycopg.Connection[tuple[Any, ...]]
LOCK_TIMEOUT = "200ms"  # whoever waits for a table stops those who come behind him
PATIENCE = "60s"  # of a DETACH, which waits for every transaction that has seen the partition
YOUNGEST = 2  # days that stay in any case: a replayed dead letter goes on in the day before yesterday at the earliest


@dataclass(frozen=True, slots=True)
class LogPartition:
    parent: str
    day: datetime.date
    is_sealed: bool
    is_attached: bool
    is_detaching: bool

    @property
    def name(self) -> str:
        return f"{self.parent}_{self.day:%Y%m%d}"


@contextmanager
def connected(url: str, *, patience: str = PATIENCE) -> Iterator[Connection]:
    """In autocommit: DETACH CONCURRENTLY takes no transaction."""
    kept = _KEPT.get()
    with kept.lent(url, patience) if kept else _begun(url, patience) as connection:
        yield connection


@contextmanager
def keeping_connections() -> Iterator[None]:
    """Within, and in this thread, `connected` begins each session once. It takes some milliseconds."""
    with ExitStack() as stack:
        token = _KEPT.set(_Kept(stack))
        stack.callback(_KEPT.reset, token)
        yield


class _Kept:
    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._sessions: dict[tuple[str, str], Connection] = {}

    @contextmanager
    def lent(self, url: str, patience: str) -> Iterator[Connection]:
        found = self._sessions.get((url, patience))
        if found is None or found.closed:
            found = self._sessions[url, patience] = self._stack.enter_context(_begun(url, patience))
        yield found


_KEPT: ContextVar[_Kept | None] = ContextVar("kept connections", default=None)


@contextmanager
def _begun(url: str, patience: str) -> Iterator[Connection]:
    with psycopg.connect(url, autocommit=True, connect_timeout=5, application_name="mqueue") as connection:
        connection.execute(
            "SELECT set_config('lock_timeout', %s, false), set_config('statement_timeout', %s, false), "
            "set_config('timezone', 'UTC', false)",
            [LOCK_TIMEOUT, patience],
        )
        yield connection


def log_partitions(connection: Connection) -> list[LogPartition]:
    return [LogPartition(*row) for row in connection.execute(statement("log_partitions")).fetchall()]


def today(connection: Connection) -> tuple[datetime.date, datetime.date]:
    """By the server's clock: today, and the last day that is over."""
    row: Any = connection.execute(statement("today")).fetchone()
    return row[0], row[1]


def live_days(connection: Connection) -> set[datetime.date]:
    return {row[0] for row in connection.execute(statement("live_days")).fetchall()}


def topics_of(connection: Connection, day: datetime.date) -> set[int]:
    return {row[0] for row in connection.execute(statement("topics_of_day"), {"day": day}).fetchall()}


def is_over(day: datetime.date, today: datetime.date, days: int) -> bool:
    """Whether what came in the last moment of the day is as old as it has to be."""
    return (today - day).days > max(days, YOUNGEST)


@dataclass(frozen=True, slots=True)
class Terms:
    """How long the topics' messages are kept: `usual`, but for those that have a time of their own."""

    usual: int
    own: dict[int, int]

    @property
    def shortest(self) -> int:
        return min([self.usual, *self.own.values()])

    @property
    def longest(self) -> int:
        return max([self.usual, *self.own.values()])

    def longest_of(self, topics: Iterable[int]) -> int:
        return max((self.own.get(topic, self.usual) for topic in topics), default=0)


def terms(conf: Conf) -> Terms:
    """As they are set now. No key may outlive the message that it names."""
    least = 1 + -(-conf.retention.dedupe_window_ms // DAY_MS)
    with connected(conf.control_url) as connection:
        own: Any = connection.execute(statement("retention_days")).fetchall()
    return Terms(max(conf.retention.retention_days, least), {topic: max(days, least) for topic, days in own})


def expired(connection: Connection, terms: Terms) -> list[LogPartition]:
    """Partitions that no topic wants any more and that no live delivery needs, the oldest first."""
    now, _ = today(connection)
    old = [one for one in log_partitions(connection) if is_over(one.day, now, terms.shortest)]
    if not old:
        return []
    live = live_days(connection)
    wanted: dict[datetime.date, int] = {}

    def is_wanted(day: datetime.date) -> bool:
        if is_over(day, now, terms.longest):
            return False
        if day not in wanted:  # reads the day: so only where it matters
            wanted[day] = terms.longest_of(topics_of(connection, day))
        return not is_over(day, now, wanted[day])

    return [one for one in old if not (one.parent == "message" and one.day in live) and not is_wanted(one.day)]


def drop(connection: Connection, partition: LogPartition) -> None:
    """Detach it, which waits for nobody's insert and stops none, and then drop it. May be killed and done again."""
    parent, name = sql.Identifier(partition.parent), sql.Identifier(partition.name)
    if partition.is_attached:
        how = sql.SQL("FINALIZE" if partition.is_detaching else "CONCURRENTLY")
        connection.execute(sql.SQL("ALTER TABLE {} DETACH PARTITION {} {}").format(parent, name, how))
    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name))
