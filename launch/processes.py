"""Starting a child that cannot outlive us, and ending what an earlier run left behind.

Every child leads a process group of its own: a Ctrl-C in the terminal reaches the supervisor alone, and what a dead
child leaves behind can be found by its group. On Linux the kernel also signals each child when the supervisor dies.
Elsewhere, and for whatever survives that signal, the next start reads the notes in MQUEUE_DATA/run and cleans up.
"""

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path

import psutil

from launch.embedded import Account
from mqueue.core.linux import leash


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
    """Write down who runs, for a next start to find."""
    draft = folder / f"{name}.new"
    draft.write_text(json.dumps({"pid": pid}))
    draft.replace(folder / f"{name}.json")  # whole or not at all


def forget(folder: Path, name: str) -> None:
    (folder / f"{name}.json").unlink(missing_ok=True)


def sweep(folder: Path, data: Path, postgres: Path, patience_s: float = 10.0) -> list[str]:
    """End what an earlier run left behind, politely at first. Returns the names of what was found alive."""
    found = {}
    for path in folder.glob("*.json"):
        try:
            members = group_members(json.loads(path.read_text())["pid"], data)
        except (ValueError, KeyError, TypeError):
            members = []
        if members:
            found[path.stem] = members
    for name, members in found.items():
        _signal_all(members, signal.SIGINT if name == "postgres" else signal.SIGTERM)
    everyone = [process for members in found.values() for process in members]
    _, stubborn = psutil.wait_procs(everyone, timeout=patience_s)
    _signal_all(stubborn, signal.SIGKILL)
    psutil.wait_procs(stubborn, timeout=5)
    end_backends(postgres)
    for path in folder.glob("*.json"):
        path.unlink(missing_ok=True)
    return sorted(found)


def group_members(leader: int, data: Path) -> list[psutil.Process]:
    """The live processes of the group that `leader` led. All of ours carry MQUEUE_DATA; a stranger that has got the
    number since does not."""
    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            ours = os.getpgid(process.pid) == leader and process.environ().get("MQUEUE_DATA") == str(data)
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
    return members


def end_backends(folder: Path) -> None:
    """Sessions of a postmaster that is gone: a busy one notices only at its end, and no new postmaster starts before.
    A live postmaster keeps its own."""
    if _live_postmaster(folder):
        return
    left = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.cwd() == str(folder) and "postgres" in process.name():
                left.append(process)
    _signal_all(left, signal.SIGQUIT)
    _, stubborn = psutil.wait_procs(left, timeout=0.5)
    _signal_all(stubborn, signal.SIGKILL)
    psutil.wait_procs(stubborn, timeout=2)


def kill_group(leader: int) -> None:
    """What a dead leader left: workers that would go on holding its port."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def clear_stale_postmaster(folder: Path, sockets: Path) -> None:
    """After a reboot the pid in postmaster.pid may be a stranger's, and PostgreSQL would not dare to start."""
    if _live_postmaster(folder):
        return
    end_backends(folder)
    for path in (folder / "postmaster.pid", sockets / ".s.PGSQL.5432.lock"):
        path.unlink(missing_ok=True)


def _live_postmaster(folder: Path) -> bool:
    try:
        pid = abs(int((folder / "postmaster.pid").read_text().splitlines()[0]))
        process = psutil.Process(pid)
        return str(folder) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
    except (FileNotFoundError, ValueError, IndexError, psutil.NoSuchProcess):
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
