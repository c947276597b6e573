"""Redis, killed, stopped, emptied, aged and without room."""

from collections.abc import Iterator
from random import Random

from tests.faults.checker.faults.catalogue import Hold, fault
from tests.faults.checker.stage import Stage


@fault("redis-killed", forgets=True)
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """SIGKILL of Redis, which stays down for a while"""
    stage.redis.kill(stays_down=True)
    yield Hold("redis", rng.uniform(0, 4))
    stage.redis.start()


@fault("redis-stopped")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """SIGSTOP of Redis, and SIGCONT"""
    stage.redis.suspend()
    yield Hold("redis", rng.uniform(0.5, 5))
    stage.redis.resume()


@fault("redis-flushed", forgets=True)
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """FLUSHALL"""
    stage.redis.tell("FLUSHALL")
    yield Hold("redis", 0.2)


@fault("redis-old", forgets=True)
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """Redis is killed and comes back with the file that it had some seconds ago"""
    stage.redis.keep_a_copy()
    yield Hold("redis", rng.uniform(2, 5))
    stage.redis.kill(stays_down=True)
    stage.redis.go_back_to_the_copy()
    stage.redis.start()


@fault("redis-disk-full", needs_disk=True, forgets=True)
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """The disk of Redis is full"""
    disk = stage.redis.disk
    assert disk
    disk.fill()
    yield Hold("redis", rng.uniform(3, 6))
    disk.clear()
