"""What must come out at the end, when one consumer and one prefetcher live on: everything."""

from tests.model.dequeue import dequeue
from tests.model.prefetcher import CHECK, PAGE, fill, look_ahead
from tests.model.settlers import ACK, BURY, LAPSE
from tests.model.state import Actor, Op, World

LAST_TICKS = 4  # enough for what is due latest, and for its lease to lapse once more


def run_alone(world: World, script: tuple[Op, ...], name: str = "alone") -> Actor:
    """From the first to the last step, skipping what cannot run."""
    actor = Actor(name, script, number=world.now * 100)
    while actor.script:
        after = actor.next_step(world, actor)
        actor = actor.done() if after is None else after
    return actor


def drain(world: World, *, page: bool) -> World:
    """The topic is kept hot, so that no cold claim hides what Redis has lost sight of."""
    world.actors = ()
    world.now += 2  # what was taken has grown old, and the leases of the killed have lapsed
    for _ in range(LAST_TICKS):
        run_alone(world, (LAPSE, BURY) * len(world.rows))
        run_alone(world, (CHECK, look_ahead(), fill(), *([PAGE] if page else [])), "last prefetcher")
        world.disturbed = False
        run_alone(world, (dequeue(), ACK) * (2 * len(world.rows) + 2), "last consumer")
        if world.fault is not None or not world.rows:
            return world
        world.now += 1
    world.fault = f"stranded: {sorted(world.rows)}"
    return world
