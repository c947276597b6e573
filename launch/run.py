"""`make run`: servers, schema, API and daemons under one supervisor, until a signal ends it."""

import asyncio
import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from launch import banner, embedded, probes, processes, services
from launch.renewal import Renewals, migrate
from launch.supervisor import StartError, Supervisor, say
from mqueue.core import seats, tokens
from mqueue.core.conf import Conf, conf
from mqueue.core.linux import leash

LOCK_PATIENCE_S = 20.0
IMPATIENT_S = 1.0
TOKEN_LIFETIME_S = 30 * 86_400


class AlreadyRunning(Exception):
    """Another supervisor holds this MQUEUE_DATA."""


def run() -> int:
    began = time.monotonic()
    if os.environ.get("MAKELEVEL"):
        leash(signal.SIGTERM)  # a killed `make` must not leave us running unseen
    configuration = conf()
    try:
        configuration.data.mkdir(parents=True, exist_ok=True)
        with only_one(configuration.data):
            return asyncio.run(_run(configuration, began))
    except (AlreadyRunning, probes.PortTaken, embedded.EmbeddedError, StartError, OSError) as error:
        say(str(error))
        return 1


async def _run(configuration: Conf, began: float) -> int:
    stop, renewals = _stop_on_signals(), Renewals(configuration.data)
    notes = configuration.data / "run"
    notes.mkdir(exist_ok=True)
    left = processes.sweep(notes, configuration.data, embedded.postgres_folder(configuration.embedded))
    if left:
        say(f"an earlier run was killed; ended what it had left: {', '.join(left)}")
    for address in services.ports(configuration).values():
        probes.require_free_port(*address)
    seats.clear(configuration.metrics.folder)  # what is left of an earlier run has been ended
    supervisor = Supervisor(services.log_folder(configuration), notes)
    stop.supervisor = supervisor
    starting = asyncio.create_task(_start(supervisor, configuration, began))
    stopping = asyncio.create_task(stop.event.wait())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not stop.event.is_set():
            _raise_first(starting.exception())
            renewing = asyncio.create_task(renewals.serve(supervisor))
            await stopping
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
        say("stopping: requests under way are finished first; Ctrl-C again to kill")
    finally:
        starting.cancel()
        stopping.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await supervisor.stop()
    say("stopped")
    return 0


def _raise_first(error: BaseException | None) -> None:
    """Services start in a group, and so do their failures: the first one is told."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error:
        raise error


async def _start(supervisor: Supervisor, configuration: Conf, began: float) -> None:
    if configuration.embedded.postgres or configuration.embedded.redis:
        configuration = await asyncio.to_thread(_make_servers, configuration)
        await supervisor.start(*services.servers(configuration, embedded.server_account()))
    slow, *others = services.workers(configuration)
    async with asyncio.TaskGroup() as group:  # Celery starts slowly and needs no schema yet
        group.create_task(supervisor.start(slow))
        await migrate()
        group.create_task(supervisor.start(*others))
    token = tokens.make(configuration.jwt_secret, "make-run", ["*"], ["*"], TOKEN_LIFETIME_S)
    say(f"everything is up after {time.monotonic() - began:.1f} s")
    print(banner.banner(configuration, token), flush=True)


def _make_servers(configuration: Conf) -> Conf:
    account = embedded.server_account()
    placed = embedded.place(configuration.embedded, configuration.data, account)
    if placed != configuration.embedded:
        conf.cache_clear()
        configuration = conf()  # the sockets lie elsewhere, and the URLs with them
    if configuration.embedded.postgres:
        if not embedded.postgres_folder(placed).exists():
            say(f"making a PostgreSQL cluster in {placed.state}")
        embedded.make_postgres(placed, account)
    return replace(configuration, embedded=placed)


@contextlib.contextmanager
def only_one(data: Path) -> Iterator[None]:
    """The lock dies with its holder, however that ends; a holder that is stopping is waited for."""
    with open(data / "run.lock", "a+") as lock:
        deadline = time.monotonic() + LOCK_PATIENCE_S
        told = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                lock.seek(0)
                holder = lock.read().strip() or "unknown"
                if time.monotonic() > deadline or not _is_stopping(data):
                    raise AlreadyRunning(
                        f"mqueue already runs on {data} (pid {holder}). Stop it with: kill {holder}; or start a second "
                        "one with its own MQUEUE_DATA, MQUEUE_PORT and METRICS_PORT"
                    ) from None
                if not told:
                    say(f"another run (pid {holder}) is stopping; waiting for it")
                    told = True
                time.sleep(0.1)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        (data / "stopping").unlink(missing_ok=True)
        yield


def _is_stopping(data: Path) -> bool:
    return (data / "stopping").exists()


class _Stop:
    """The first signal drains. Only a person's later Ctrl-C kills: one SIGTERM may arrive twice, from make too."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.supervisor: Supervisor | None = None
        self._since = 0.0

    def __call__(self, number: int) -> None:
        if not self.event.is_set():
            self._since = time.monotonic()
            (conf().data / "stopping").touch()
            self.event.set()
        elif number == signal.SIGINT and self.supervisor and time.monotonic() - self._since > IMPATIENT_S:
            say("killing everything")
            self.supervisor.kill()


def _stop_on_signals() -> _Stop:
    stop = _Stop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    return stop
