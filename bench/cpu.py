"""CPU seconds that each part of a service has spent, from the kernel's accounts."""

from contextlib import suppress

import psutil

from bench.service import Service

PARTS = ("api", "postgres", "valkey", "daemons", "celery", "metrics")


def spent(service: Service, client: int) -> dict[str, float]:
    """By part, with `client` for the load generator, and `others` for whatever else has kept the machine busy."""
    pids = {part: service.pid_of(part) for part in PARTS}
    found = {part: of_tree(pid) for part, pid in (pids | {"client": client}).items()}
    all_cores = psutil.cpu_times()
    return found | {"others": float(all_cores.user + all_cores.nice + all_cores.system) - sum(found.values())}


def of_tree(pid: int) -> float:
    """A process, its children, and those of its children that have ended and were waited for."""
    with suppress(psutil.Error):
        leader = psutil.Process(pid)
        return sum(map(of_one, [leader, *leader.children(recursive=True)]))
    return 0.0


def of_one(process: psutil.Process) -> float:
    """User and system time; a session of PostgreSQL that ended meanwhile counts with its postmaster."""
    with suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0
