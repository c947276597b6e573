"""One state of everything: the rows, the keys of one topic, and where each actor stands.

Steps change a copy of the world; `key` is what makes two worlds the same.
"""

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple, Self

from tests.model.rules import Rules

NOTHING: tuple[Any, ...] = ()  # no ref sorts before it
EVERYTHING: tuple[Any, ...] = (inf,)  # every ref sorts before it
MAX_RETRIES = 1
VISIBILITY = 1  # ticks that a lease lives


class Ref(NamedTuple):
    """What Redis holds of a message; compares by the place in the order."""

    priority: int
    due: int
    id: int
    epoch: int

    @property
    def just_past(self) -> tuple[Any, ...]:
        return (self.priority, self.due, self.id, inf)


class Row(NamedTuple):
    """A row of `delivery`. Waiting without `until`, leased with it."""

    id: int
    priority: int
    due: int
    epoch: int = 0
    attempts: int = 0
    until: int | None = None
    expiry: int | None = None
    due_when_written: bool = True
    answered: bool = True  # seen only by the invariants: whoever wrote it has said so

    @property
    def ref(self) -> Ref:
        return Ref(self.priority, self.due, self.id, self.epoch)


class Topic(NamedTuple):
    """The keys of a topic that is not cold."""

    bound: tuple[Any, ...] = NOTHING
    ready: frozenset[Ref] = frozenset()
    soon: frozenset[Ref] = frozenset()
    horizon: int | None = None
    building: tuple[Any, int] | None = None  # the token and the horizon of a look ahead
    taken: frozenset[tuple[Ref, int]] = frozenset()
    fill: Any = None


class Actor(NamedTuple):
    """`script[0]` is under way where `step` says what comes next; `memo` is what it holds in its memory."""

    name: str
    script: tuple["Op", ...]
    step: "Step | None" = None
    memo: Any = None
    receipts: tuple[tuple[int, int], ...] = ()
    number: int = 0

    def then(self, step: "Step", memo: Any = None) -> Self:
        return self._replace(step=step, memo=memo)

    def done(self, **changes: Any) -> Self:
        return self._replace(script=self.script[1:], step=None, memo=None, number=self.number + 1, **changes)

    @property
    def next_step(self) -> "Step":
        return self.step or self.script[0].first

    @property
    def args(self) -> tuple[Any, ...]:
        return self.script[0].args

    @property
    def token(self) -> tuple[str, int]:
        return (self.name, self.number)


class World:
    """Mutable while a step runs, and copied before each."""

    def __init__(self, rules: Rules, actors: tuple[Actor, ...] = (), *, skew: int = 0, ticks: int = 0, kills: int = 0):
        self.rules, self.actors, self.skew, self.ticks, self.kills = rules, actors, skew, ticks, kills
        self.now = 0
        self.rows: dict[int, Row] = {}
        self.locked: frozenset[int] = frozenset()
        self.dead: dict[int, Row] = {}
        self.ended: dict[int, str] = {}
        self.handed: dict[int, int] = {}  # hand-outs that spent an attempt
        self.topic: Topic | None = None
        self.run = 1  # of the Redis server
        self.noted: int | None = 1  # the run that the keys were built on
        self.generation = 1
        self.saved: tuple[Topic | None, int | None] = (None, None)
        self.disturbed = False
        self.fault: str | None = None

    def copy(self) -> "World":
        twin = object.__new__(World)
        twin.__dict__.update(self.__dict__)
        twin.rows, twin.dead = self.rows.copy(), self.dead.copy()
        twin.ended, twin.handed = self.ended.copy(), self.handed.copy()
        return twin

    def key(self) -> tuple[Any, ...]:
        redis = (self.topic, self.generation, self.run, self.noted, self.saved)
        left = (self.now, self.ticks, self.kills, self.disturbed, self.actors, self.locked)
        tables = (self.rows.values(), self.dead.values(), self.ended.items(), self.handed.items())
        return (redis, left, *(frozenset(table) for table in tables))

    @property
    def redis_now(self) -> int:
        return self.now + self.skew

    def waiting(self, *, due_by: float = inf) -> list[Row]:
        """In the order in which they are to be handed out."""
        rows = [row for row in self.rows.values() if row.until is None and row.due <= due_by]
        return sorted(rows, key=lambda row: row.ref)

    def visible_rows(self) -> list[Row]:
        return [row for row in self.waiting(due_by=self.now) if row.expiry is None or row.expiry > self.now]


Step = Callable[[World, Actor], "Actor | None"]  # None: it cannot run now


class Op(NamedTuple):
    first: Step
    args: tuple[Any, ...] = ()
