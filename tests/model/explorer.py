"""Every interleaving of a case, breadth first: the counter-example that it returns is a shortest one."""

import gc
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.model.drain import drain, run_alone
from tests.model.rules import SOUND, Rules
from tests.model.state import Actor, Op, World
from tests.model.story import tell

MOST_STATES = 200_000


class Case(NamedTuple):
    """Actors with their scripts, after a setup that ran alone. One of the mortal may be killed within an operation."""

    actors: dict[str, tuple[Op, ...]]
    setup: tuple[Op, ...] = ()
    ticks: int = 0
    skew: int = 0  # by how much the clock of Redis is ahead of PostgreSQL's
    mortal: tuple[str, ...] = ()
    page: bool = False  # may the page from the start come to help at the end?

    def start(self, rules: Rules) -> World:
        world = World(rules, skew=self.skew)
        run_alone(world, self.setup)
        world.actors = tuple(Actor(name, script) for name, script in self.actors.items())
        world.ticks, world.kills = self.ticks, 1 if self.mortal else 0
        return world


class Found(NamedTuple):
    states: int
    ends: int
    fault: str | None = None
    story: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((self.fault or f"no fault in {self.states} states", *self.story))


def explore(case: Case, rules: Rules = SOUND) -> Found:
    with no_collection():
        return _explore(case, rules)


def _explore(case: Case, rules: Rules) -> Found:
    world = case.start(rules)
    key = world.key()
    before: dict[Any, tuple[Any, str]] = {key: (None, "")}
    queue = deque([(world, key)])
    ends = 0
    while queue:
        world, key = queue.popleft()
        at_rest = True
        for move, after in moves(case, world):
            at_rest &= move.startswith("kill")
            if after.fault is not None:
                return Found(len(before), ends, after.fault, tell(replay(case, rules, [*path(before, key), move])))
            after_key = after.key()
            if after_key not in before:
                before[after_key] = (key, move)
                queue.append((after, after_key))
        if at_rest:
            ends += 1
            fault = drain(world.copy(), page=case.page).fault
            if fault is not None:
                return Found(len(before), ends, fault, tell(replay(case, rules, path(before, key))))
        assert len(before) <= MOST_STATES, "the case is too big"
    return Found(len(before), ends)


def moves(case: Case, world: World) -> Iterator[tuple[str, World]]:
    for number, actor in enumerate(world.actors):
        if actor.script:
            after = world.copy()
            if step(after, number):
                yield actor.name, after
        if world.kills and actor.step is not None and actor.name in case.mortal:
            yield f"kill the {actor.name}", killed(world.copy(), number)
    if world.ticks:
        after = world.copy()
        after.now, after.ticks = after.now + 1, after.ticks - 1
        yield "time passes", after


def step(world: World, number: int) -> bool:
    actor = world.actors[number]
    after = actor.next_step(world, actor)
    if after is not None:
        world.actors = (*world.actors[:number], after, *world.actors[number + 1 :])
    return after is not None


def killed(world: World, number: int) -> World:
    """A transaction that was under way is rolled back."""
    gone = Actor(world.actors[number].name, ())
    world.actors = (*world.actors[:number], gone, *world.actors[number + 1 :])
    world.kills, world.disturbed, world.locked = world.kills - 1, True, frozenset()
    return world


def path(before: dict[Any, tuple[Any, str]], key: Any) -> list[str]:
    backwards = []
    while key is not None:
        key, move = before[key]
        backwards.append(move)
    return backwards[-2::-1]


def replay(case: Case, rules: Rules, way: list[str]) -> Iterator[tuple[str, World]]:
    world = case.start(rules)
    yield "at first", world
    for move in way:
        does = next((actor.next_step.__name__ for actor in world.actors if actor.name == move), "")
        world = dict(moves(case, world))[move]
        yield f"{move} {does}".replace("_", " ").rstrip(), world


@contextmanager
def no_collection() -> Iterator[None]:
    """States have no cycles; looking for some among so many would take as long as the search."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
