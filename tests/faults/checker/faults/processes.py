"""Our own processes, killed and stopped."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import psutil

from tests.faults.checker.faults.catalogue import Hold, fault
from tests.faults.checker.stage import KINDS, Stage


@fault("api-worker-killed")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """SIGKILL of one process that serves the API"""
    for worker in stage.api_workers()[: rng.choice((1, 1, 2))]:
        worker.kill()
    yield Hold("a worker", 0.5)


@fault("api-parent-killed")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """SIGKILL of the API's parent; its workers go with it"""
    stage.signal("api", signal.SIGKILL)
    yield Hold("the parent", 0.5)


@fault("api-worker-stopped")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """SIGSTOP of one process that serves the API, and SIGCONT"""
    stopped = stage.api_workers()[:1]
    for worker in stopped:
        worker.suspend()
    yield Hold("a worker", rng.uniform(1, 4))
    for worker in stopped:
        with suppress(psutil.NoSuchProcess):
            worker.resume()


@fault("daemons-killed")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """SIGKILL of all daemons at once"""
    stage.signal("daemons", signal.SIGKILL)
    for second in stage.seconds.values():
        second.send(signal.SIGKILL)
    yield Hold("all of them", 0.5)


@fault("daemons-stopped")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """SIGSTOP of the daemons' process: whoever stands by takes over; then it wakes"""
    stage.signal("daemons", signal.SIGSTOP)
    yield Hold("the service's own", rng.uniform(2, 5))
    stage.signal("daemons", signal.SIGCONT)


def _one_daemon(kind: str) -> None:
    @fault(f"{kind}-killed")
    def killed(stage: Stage, rng: Random) -> Iterator[Hold]:
        stage.seconds[kind].send(signal.SIGKILL)
        yield Hold(kind, 0.3)

    @fault(f"{kind}-stopped")
    def stopped(stage: Stage, rng: Random) -> Iterator[Hold]:
        stage.seconds[kind].send(signal.SIGSTOP)
        yield Hold(kind, rng.uniform(2, 5))
        stage.seconds[kind].send(signal.SIGCONT)

    killed.__doc__, stopped.__doc__ = (
        f"SIGKILL of a {kind}",
        f"SIGSTOP of a {kind} while another takes over, then SIGCONT",
    )


for _kind in KINDS:
    _one_daemon(_kind)


@fault("celery-killed")
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """SIGKILL of Celery"""
    stage.signal("celery", signal.SIGKILL)
    yield Hold("celery", 0.3)


@fault("everything-killed", forgets=True)
def _(stage: Stage, rng: Random) -> Iterator[Hold]:
    """SIGKILL of all servers and of the API at the same time"""
    for server in stage.servers.values():
        server.kill(stays_down=True)
    with suppress(ProcessLookupError):
        os.kill(stage.service.pid_of("api"), signal.SIGKILL)
    yield Hold("everything", rng.uniform(0, 2))
    for server in stage.servers.values():
        server.start()
