"""Every process of ours is succeeded by a new one, in turn; it leaves only when its successor works."""

import asyncio
import signal
import time

from launch import processes
from launch.supervisor import POLL_S, Service, StartError, Supervisor, say


async def renew_all(supervisor: Supervisor) -> None:
    """All but the servers. Where a successor does not work, the old one stays, and StartError says so."""
    for service in supervisor.services:
        if service.is_server:
            continue
        began = time.monotonic()
        if service.word:
            await _renew_inside(supervisor, service)
        elif service.is_alone:
            await _start_anew(supervisor, service)
        else:
            await _succeed(supervisor, service)
        say(f"{service.name} is renewed ({time.monotonic() - began:.1f} s)")


async def _renew_inside(supervisor: Supervisor, service: Service) -> None:
    """It renews its own workers, on sockets that stay open."""
    assert service.word
    service.word.unlink(missing_ok=True)
    process, deadline = supervisor.running[service.name], time.monotonic() + service.ready_timeout_s
    process.send_signal(signal.SIGHUP)
    while not service.word.exists():
        if supervisor.running[service.name] is not process:
            return  # it died, and was started again: that is as new
        if time.monotonic() > deadline:
            raise StartError(f"{service.name} has not renewed its workers in {service.ready_timeout_s:.0f} s")
        await asyncio.sleep(POLL_S)
    if trouble := service.word.read_text():
        raise StartError(f"{service.name}: {trouble}")


async def _start_anew(supervisor: Supervisor, service: Service) -> None:
    """Two of it at once would hinder each other, and nobody waits for it."""
    await supervisor.watch(service, None)
    await supervisor.end(service, supervisor.running[service.name])
    await supervisor.watch(service, supervisor.keep(service))
    await supervisor.until_ready(service, time.monotonic())


async def _succeed(supervisor: Supervisor, service: Service) -> None:
    """By another process of its kind, beside which it works on until that is ready."""
    old, leaving = supervisor.running[service.name], f"{service.name}.leaving"
    await supervisor.watch(service, None)
    processes.note(supervisor.notes, leaving, old.pid)  # for a next start to find, should we be killed
    await supervisor.watch(service, supervisor.keep(service))
    stays = False
    try:
        await supervisor.until_ready(service, time.monotonic())
    except StartError:
        stays = True
        await supervisor.watch(service, None)
        await supervisor.end(service, supervisor.running[service.name])
        supervisor.running[service.name] = old
        processes.note(supervisor.notes, service.name, old.pid)
        await supervisor.watch(service, supervisor.keep(service, old))
        raise
    finally:
        if not stays:  # also where we are asked to stop meanwhile
            await supervisor.end(service, old)
        processes.forget(supervisor.notes, leaving)
