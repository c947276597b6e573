"""How many messages a namespace has, or one of its topics, in each state."""

from typing import NamedTuple

from mqueue.core.messages import StatsPage
from mqueue.engine.look import Looking


class Totals(NamedTuple):
    waiting: int
    leased: int
    dead: int


async def totals(look: Looking, namespace: str, topic: str | None = None) -> Totals:
    """As `/stats` has it."""
    waiting = leased = dead = 0
    after = ""
    while depths := await look.stats(StatsPage(namespace, topic, after)):
        for depth in depths:
            waiting += depth.ready + depth.scheduled
            leased += depth.leased
            dead += depth.dead
        if topic is not None:
            break
        after = depths[-1].topic
    return Totals(waiting, leased, dead)
