"""What happens to Redis."""

from tests.model.state import Actor, Op, World


def save(world: World, me: Actor) -> Actor:
    world.saved = (world.topic, world.noted)
    return me.done()


def restart(world: World, me: Actor) -> Actor:
    """It comes back with what was saved."""
    world.topic, world.noted = world.saved
    world.run += 1
    return me.done()


def flush(world: World, me: Actor) -> Actor:
    world.topic = world.noted = None
    return me.done()


SAVE, RESTART, FLUSH = (Op(step) for step in (save, restart, flush))
