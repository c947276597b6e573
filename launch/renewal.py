"""`python -m launch restart`: every process of ours is renewed, one after another, with the code and schema of now.

The supervisor itself and the servers stay. A process leaves only when its successor works; where that fails, it stays,
and whoever asked is told.
"""

import asyncio
import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path

from launch import services
from launch.succession import renew_all
from launch.supervisor import StartError, Supervisor, say

PATIENCE_S = 180.0
POLL_S = 0.05
DONE = "done"


async def migrate() -> None:
    """To its end; its messages go to the terminal as they come."""
    process = await asyncio.create_subprocess_exec(
        *services.migrate_command(), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True
    )
    assert process.stdout
    try:
        async for line in process.stdout:
            say(line.decode().rstrip())
        if await process.wait():
            raise StartError("migrating failed; the message is above")
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


class Renewals:
    """In the supervisor: waits to be asked, by SIGUSR1, and answers in a file."""

    def __init__(self, data: Path) -> None:
        self._word = _word(data)
        self._asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._asked.set)

    async def serve(self, supervisor: Supervisor) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            say("renewing every process, one after another")
            try:
                await migrate()
                await renew_all(supervisor)
            except (StartError, OSError) as error:
                outcome = str(error)
            else:
                outcome = DONE
            say(f"renewing: {outcome}")
            draft = self._word.with_suffix(".new")
            draft.write_text(outcome)
            draft.replace(self._word)


def restart(data: Path) -> str:
    """Ask the supervisor that runs on `data`, and wait; what went wrong, if anything."""
    holder = _holder(data)
    if holder is None:
        return f"nothing runs on {data}: start it with make run"
    word = _word(data)
    word.unlink(missing_ok=True)
    os.kill(holder, signal.SIGUSR1)
    deadline = time.monotonic() + PATIENCE_S
    while not word.exists():
        if time.monotonic() > deadline or _holder(data) != holder:
            return f"the supervisor (pid {holder}) has not renewed its processes; see its terminal"
        time.sleep(POLL_S)
    outcome = word.read_text()
    return "" if outcome == DONE else outcome


def _holder(data: Path) -> int | None:
    """Who holds the lock of the one supervisor that may run here."""
    try:
        with open(data / "run.lock") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(lock.read().strip() or 0) or None
    except (FileNotFoundError, ValueError):
        pass
    return None


def _word(data: Path) -> Path:
    return data / "run" / "renewed"
