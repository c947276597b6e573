"""Runs the services, restarts whatever dies, and stops everything in order."""

import asyncio
import itertools
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launch import processes
from launch.embedded import Account

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
STABLE_AFTER_S = 10.0
POLL_S = 0.03


class StartError(Exception):
    """A service did not come up; the message ends with its last words."""


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    command: list[str]
    ready: Callable[[], Awaitable[bool]]
    env: dict[str, str] = field(repr=False)
    account: Account | None = None
    stop_signal: int = signal.SIGTERM
    stop_timeout_s: float = 15.0
    ready_timeout_s: float = 60.0
    before_start: Callable[[], object] = lambda: None
    word: Path | None = None  # it renews its own workers on SIGHUP, and writes here when that is over
    is_alone: bool = False  # two of it at once would hinder each other
    is_server: bool = False  # PostgreSQL, Valkey: others need it while they drain, so it stops after them


class Supervisor:
    def __init__(self, logs: Path, notes: Path) -> None:
        self.logs, self.notes = logs, notes
        self.running: dict[str, asyncio.subprocess.Process] = {}
        self.services: list[Service] = []
        self._watchers: dict[str, asyncio.Task[None]] = {}
        self._ready: set[str] = set()

    async def start(self, *services: Service) -> None:
        """Start them side by side, and return when each is ready."""
        began = time.monotonic()
        for service in services:
            self.services.append(service)
            self._watchers[service.name] = asyncio.create_task(self.keep(service))
        async with asyncio.TaskGroup() as group:
            for service in services:
                group.create_task(self.until_ready(service, began))

    async def stop(self) -> None:
        """The servers last: the API drains while its databases still serve."""
        for watcher in self._watchers.values():
            watcher.cancel()
        await asyncio.gather(*self._watchers.values(), return_exceptions=True)
        for servers in (False, True):
            ending = [service for service in self.services if service.is_server is servers]
            await asyncio.gather(*(self._end_running(service) for service in ending))

    async def watch(self, service: Service, keep: Coroutine[Any, Any, None] | None) -> None:
        """By another task from now on, or by none."""
        watcher = self._watchers[service.name]
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)
        if keep:
            self._watchers[service.name] = asyncio.create_task(keep)

    def kill(self) -> None:
        """For a second Ctrl-C: no more waiting."""
        for process in self.running.values():
            processes.kill_group(process.pid)

    async def keep(self, service: Service, process: asyncio.subprocess.Process | None = None) -> None:
        """Start it, or take the one that runs, and start it again whenever it ends."""
        delay = FIRST_DELAY_S
        for restarts in itertools.count():
            began = time.monotonic()
            try:
                process = process or await self._spawn(service)
            except Exception as error:
                if not restarts:
                    raise  # at the first start it is the user's to mend
                say(f"{service.name} cannot be started: {error}; trying again in {delay:.1f} s")
                await asyncio.sleep(delay)
                delay = min(delay * 2, LONGEST_DELAY_S)
                continue
            telling = asyncio.create_task(self._tell_when_back(service, began)) if restarts else None
            code = await process.wait()
            if telling:
                telling.cancel()
            processes.kill_group(process.pid)
            lived = time.monotonic() - began
            delay = FIRST_DELAY_S if lived > STABLE_AFTER_S else delay
            again = f"starting it again in {delay:.1f} s"
            say(f"{service.name} (pid {process.pid}) {ended(code)} after {lived:.1f} s; {again}")
            if code > 0:
                print(processes.tail(self.logs / f"{service.name}.log", 5), file=sys.stderr, flush=True)
            process = None
            await asyncio.sleep(delay)
            delay = min(delay * 2, LONGEST_DELAY_S)

    async def _tell_when_back(self, service: Service, began: float) -> None:
        while not await service.ready():
            await asyncio.sleep(POLL_S)
        say(f"{service.name} is back ({time.monotonic() - began:.1f} s)")

    async def _spawn(self, service: Service) -> asyncio.subprocess.Process:
        service.before_start()
        self.logs.mkdir(parents=True, exist_ok=True)
        self.notes.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{service.name}.log"
        processes.rotate(log)
        process = await processes.start(
            service.command, stop_signal=service.stop_signal, log=log, env=service.env, account=service.account
        )
        self.running[service.name] = process
        processes.note(self.notes, service.name, process.pid)
        return process

    async def until_ready(self, service: Service, began: float) -> None:
        while not await service.ready():
            if self._watchers[service.name].done():
                await self._watchers[service.name]  # it could not even be spawned: its error is the message
            if time.monotonic() - began > service.ready_timeout_s:
                last_words = processes.tail(self.logs / f"{service.name}.log")
                raise StartError(f"{service.name} is not ready after {service.ready_timeout_s:.0f} s:\n{last_words}")
            await asyncio.sleep(POLL_S)
        self._ready.add(service.name)
        say(f"{service.name} is ready ({time.monotonic() - began:.1f} s)")

    async def _end_running(self, service: Service) -> None:
        if process := self.running.get(service.name):
            await self.end(service, process)
            processes.forget(self.notes, service.name)

    async def end(self, service: Service, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            # One that was never ready has nothing to finish, and may not listen to signals yet.
            patience_s = service.stop_timeout_s if service.name in self._ready or service.is_server else 2.0
            process.send_signal(service.stop_signal)
            try:
                await asyncio.wait_for(process.wait(), patience_s)
            except TimeoutError:
                say(f"{service.name} did not stop within {patience_s:.0f} s; killing it")
        processes.kill_group(process.pid)
        await process.wait()


def ended(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} mqueue: {text}", file=sys.stderr, flush=True)
