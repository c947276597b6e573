"""PostgreSQL, killed, stopped, held up and without room."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import psycopg

from tests.faults.checker.faults.catalogue import Hold, fault
from tests.faults.checker.stage import Stage


@fault("shard-killed")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """SIGKILL of a shard's PostgreSQL, which stays down for a while"""
    shard = stage.shard(rng)
    shard.kill(stays_down=True)
    yield Hold(shard.name, rng.uniform(0, 5))
    shard.start()


@fault("shard-immediate")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """pg_ctl stop -m immediate (SIGQUIT), and a start"""
    shard = stage.shard(rng)
    shard.kill(signal.SIGQUIT, stays_down=True)
    yield Hold(shard.name, rng.uniform(0, 2))
    shard.start()


@fault("shard-restarted")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """pg_ctl restart -m fast (SIGINT)"""
    shard = stage.shard(rng)
    shard.kill(signal.SIGINT, stays_down=True)
    yield Hold(shard.name, 0)
    shard.start()


@fault("shard-stopped")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """SIGSTOP of every process of a shard's PostgreSQL, and SIGCONT"""
    shard = stage.shard(rng)
    shard.suspend()
    yield Hold(shard.name, rng.uniform(1, 9))
    shard.resume()


@fault("backend-killed")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """SIGKILL of one of PostgreSQL's sessions, after which it ends all and recovers"""
    shard = stage.shard(rng)
    shard.kill_a_backend()
    yield Hold(shard.name, 0.3)


@fault("sessions-terminated")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """pg_terminate_backend of all sessions of a database"""
    database = stage.database(rng)
    database.end_sessions()
    yield Hold(database.name, 0.2)


@fault("control-killed")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """SIGKILL of the control PostgreSQL, which stays down for a while"""
    stage.control.kill(stays_down=True)
    yield Hold("control", rng.uniform(0, 5))
    stage.control.start()


@fault("control-stopped")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """SIGSTOP of the control PostgreSQL, and SIGCONT"""
    stage.control.suspend()
    yield Hold("control", rng.uniform(1, 9))
    stage.control.resume()


@fault("snapshot-held")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """A REPEATABLE READ transaction is held open on a shard"""
    shard = stage.shard(rng)
    with psycopg.connect(shard.url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM delivery")
        yield Hold(shard.name, rng.uniform(5, 12))


@fault("idle-writer")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """A transaction that has written is held open on a shard"""
    shard = stage.shard(rng)
    with psycopg.connect(shard.url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS chaos (n integer)")
        connection.commit()
        connection.execute("INSERT INTO chaos VALUES (1)")
        yield Hold(shard.name, rng.uniform(5, 12))


@fault("rows-locked", order_is_promised=False)
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """Somebody locks many rows of the queue"""
    shard = stage.shard(rng)
    with psycopg.connect(shard.url) as connection:
        connection.execute("SELECT id FROM delivery LIMIT 200 FOR UPDATE SKIP LOCKED")
        yield Hold(shard.name, rng.uniform(1, 4))


@fault("table-locked", order_is_promised=False)
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """Somebody locks a whole table"""
    shard, table = stage.shard(rng), rng.choice((b"delivery", b"message", b"event", b"tally_delta"))
    with psycopg.connect(shard.url) as connection, suppress(psycopg.errors.LockNotAvailable):
        connection.execute("SET lock_timeout = '1s'")
        connection.execute(b"LOCK TABLE " + table + b" IN ACCESS EXCLUSIVE MODE")
        yield Hold(f"{table.decode()} of {shard.name}", rng.uniform(1, 4))


@fault("shard-disk-full", needs_disk=True)
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """The disk of shard 1 is full"""
    disk = stage.shards[1].disk
    assert disk
    disk.fill()
    yield Hold("shard 1", rng.uniform(3, 8))
    disk.clear()
    stage.shards[1].start()
