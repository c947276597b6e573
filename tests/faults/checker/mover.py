"""Moves a topic's slot to the other shard while everything goes on, and does not rest until it is there."""

import subprocess
import sys
import threading
import time
from pathlib import Path

from mqueue.core.conf import ROOT

GRACE_S = 3
PATIENCE_S = 90.0
AGAIN_AFTER_S = 0.5


class Mover:
    """One move after another. A mover that fails, since a database is away, or is killed, is followed by another that
    resumes."""

    def __init__(self, env: dict[str, str], log: Path) -> None:
        self._env, self._log = env, log
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self.moves = 0

    @property
    def is_at_work(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def begin(self, slot: int, to: int) -> None:
        self._thread = threading.Thread(target=self._move, args=(slot, to), daemon=True)
        self._thread.start()

    def kill(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.kill()

    def close(self) -> None:
        """Nothing of it goes on, however far it is."""
        self._closed = True
        self.kill()
        if self._thread:
            self._thread.join(10)

    def finish(self) -> None:
        if self._thread:
            self._thread.join(PATIENCE_S)
            assert not self._thread.is_alive(), f"a move does not end: {self._log.read_text()[-2000:]}"

    def _move(self, slot: int, to: int) -> None:
        while self._run("move", "--slots", str(slot), "--to", str(to), "--grace-s", str(GRACE_S)) != 0:
            if self._closed:
                return
            time.sleep(AGAIN_AFTER_S)
            self._run("resume")  # then a move says that the slot is there already
        self.moves += 1

    def _run(self, *arguments: str) -> int:
        with open(self._log, "ab") as output:
            output.write(f"$ reshard {' '.join(arguments)}\n".encode())
            output.flush()
            command = [sys.executable, "manage.py", "reshard", *arguments]
            self._process = subprocess.Popen(command, env=self._env, cwd=ROOT, stdout=output, stderr=output)
            return self._process.wait()
