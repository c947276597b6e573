"""A topic's slot moves to another shard while everything goes on."""

import time
from collections.abc import Iterator
from random import Random

from shards.routing import slot_of
from tests.faults.checker.faults.catalogue import Hold, fault
from tests.faults.checker.messages import NAMESPACE
from tests.faults.checker.stage import SHARDS, Stage


def _begin(stage: Stage, rng: Random) -> tuple[str, bool]:
    """What moves where, and whether it does."""
    topic = rng.choice(stage.topics)
    if stage.mover.is_at_work:
        return "the one before is not over", False
    to = (stage.shard_of(topic) + 1) % SHARDS
    stage.mover.begin(slot_of(NAMESPACE, topic), to)
    return f"{topic} to shard {to}", True


@fault("slot-moved")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """manage.py reshard moves a topic's slot to another shard"""
    what, is_done = _begin(stage, rng)
    yield Hold(what, rng.uniform(5, 9), is_done)


@fault("slot-mover-killed")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """The same, with a SIGKILL of the mover at any step; another one resumes"""
    what, is_done = _begin(stage, rng)
    time.sleep(rng.uniform(0.5, 5))
    stage.mover.kill()
    yield Hold(what, rng.uniform(4, 6), is_done)
