"""Starting a child that cannot outlive us, and ending what an earlier run left behind.

Every child leads a process group of its own: a Ctrl-C in the terminal reaches the supervisor alone, and what a dead
child leaves behind can be found by its group. On Linux the kernel also signals each child when the supervisor dies.
Elsewhere, and for whatever survives that signal, the next start reads the notes in MQUEUE_DATA/run and cleans up.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import sys
from pathlib import Path

import psutil

from launch.embedded import Account

PR_SET_PDEATHSIG = 1


def leash(stop_signal: int) -> None:
    """Have the kernel send us `stop_signal` when our parent dies. Linux only; a no-op elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, stop_signal, 0, 0, 0)


async def start(
    command: list[str], *, stop_signal: int, log: Path, env: dict[str, str], account: Account | None
) -> asyncio.subprocess.Process:
    who = {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}
    with open(log, "ab") as output:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            cwd="/" if account else None,
            start_new_session=True,
            preexec_fn=lambda: leash(stop_signal),
            **who,  # type: ignore[arg-type]
        )


def note(folder: Path, name: str, pid: int) -> None:
    """Write down who runs, so that a next start can tell our orphan from a stranger with a recycled pid."""
    with contextlib.suppress(psutil.NoSuchProcess):
        text = json.dumps({"pid": pid, "created": psutil.Process(pid).create_time()})
        (folder / f"{name}.json").write_text(text)


def forget(folder: Path, name: str) -> None:
    (folder / f"{name}.json").unlink(missing_ok=True)


def sweep(folder: Path, patience_s: float = 10.0) -> list[str]:
    """End what an earlier run left behind, politely at first. Returns the names of what was found alive."""
    found = {}
    for path in folder.glob("*.json"):
        try:
            noted = json.loads(path.read_text())
            members = group_members(noted["pid"], noted["created"])
        except (ValueError, KeyError):
            members = []
        if members:
            found[path.stem] = members
    for name, members in found.items():
        _signal_all(members, signal.SIGINT if name == "postgres" else signal.SIGTERM)
    everyone = [process for members in found.values() for process in members]
    _, stubborn = psutil.wait_procs(everyone, timeout=patience_s)
    _signal_all(stubborn, signal.SIGKILL)
    psutil.wait_procs(stubborn, timeout=5)
    for path in folder.glob("*.json"):
        path.unlink(missing_ok=True)
    return sorted(found)


def group_members(leader: int, created: float | None = None) -> list[psutil.Process]:
    """The live processes of the group that `leader` led; none where its pid now belongs to somebody else."""
    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            if os.getpgid(process.pid) != leader or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if process.pid == leader and created and abs(process.create_time() - created) > 1:
                return []
            members.append(process)
    return members


def kill_group(leader: int) -> None:
    """What a dead leader left: workers that would go on holding its port."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def clear_stale_postmaster(folder: Path, sockets: Path) -> None:
    """After a reboot the pid in postmaster.pid may be a stranger's, and PostgreSQL would not dare to start."""
    for path in (folder / "postmaster.pid", sockets / ".s.PGSQL.5432.lock"):
        with contextlib.suppress(FileNotFoundError, ValueError, IndexError):
            pid = abs(int(path.read_text().splitlines()[0]))
            if not _is_postmaster_of(pid, folder):
                path.unlink()


def _is_postmaster_of(pid: int, folder: Path) -> bool:
    try:
        return str(folder) in psutil.Process(pid).cmdline()
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _signal_all(processes: list[psutil.Process], number: int) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def tail(log: Path, lines: int = 12) -> str:
    with contextlib.suppress(FileNotFoundError):
        text = log.read_bytes()[-16_384:].decode(errors="replace")
        return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])
    return ""


def rotate(log: Path, limit: int = 20 * 1024 * 1024) -> None:
    """Keep one older file; done at each start of a child, so that a log cannot grow through restarts."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > limit:
            log.replace(log.with_suffix(".log.1"))
