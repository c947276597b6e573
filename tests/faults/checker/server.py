"""A server that a run breaks. What dies is started again, as a supervisor would, unless a fault holds it down."""

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

from launch import embedded, processes
from mqueue.core.conf import Embedded
from tests.faults.checker.disks import Disk

LOOK_EVERY_S = 0.1
START_S = 60.0


class Server:
    """One server process. `folder` holds its state, its socket and its log."""

    def __init__(self, name: str, folder: Path, disk: Disk | None = None) -> None:
        self.name, self.folder, self.disk = name, folder, disk
        self.account = embedded.server_account()
        folder.mkdir(parents=True)
        if disk:
            disk.mount(folder)
        self.placed = embedded.place(
            Embedded(postgres=True, redis=True, shards=1, state=folder, sockets=folder / "sockets"),
            folder,
            self.account,
        )
        self._log = folder.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None
        self._is_wanted = threading.Event()
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._keeper = threading.Thread(target=self._keep, daemon=True)

    @property
    def address(self) -> Path:
        """The socket that it listens on."""
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def before_start(self) -> None:
        """What an earlier process has left."""

    def answers(self) -> bool:
        raise NotImplementedError

    def open(self) -> None:
        self.start()
        self._keeper.start()

    def start(self, *, wait: bool = True) -> None:
        with self._lock:
            self._is_wanted.set()
            self._spawn()
        deadline = time.monotonic() + START_S
        while wait and not self.answers():
            assert time.monotonic() < deadline, f"{self.name} does not start: {processes.tail(self._log)}"
            time.sleep(0.02)

    def kill(self, number: int = signal.SIGKILL, *, stays_down: bool = False) -> None:
        """It comes back at once, or when `start` is called."""
        with self._lock:
            if stays_down:
                self._is_wanted.clear()
            if self._process:
                self._process.send_signal(number)
                self._process.wait(30)

    def suspend(self) -> None:
        for process in self._all():
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                process.suspend()

    def resume(self) -> None:
        for process in self._all():
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def close(self) -> None:
        self._closed.set()
        self._is_wanted.clear()
        if self._keeper.is_alive():
            self._keeper.join(5)
        self.resume()
        if self._process and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self.before_start()  # ends what is left
        if self.disk:
            self.disk.unmount()

    def _all(self) -> list[psutil.Process]:
        if not self._process or self._process.poll() is not None:
            return []
        try:
            parent = psutil.Process(self._process.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _keep(self) -> None:
        while not self._closed.wait(LOOK_EVERY_S):
            with self._lock:
                if self._is_wanted.is_set():
                    self._spawn()

    def _spawn(self) -> None:
        if self._process and self._process.poll() is None:
            return
        self.before_start()
        who = {"user": self.account.uid, "group": self.account.gid, "extra_groups": []} if self.account else {}
        with open(self._log, "ab") as output:
            self._process = subprocess.Popen(  # type: ignore[call-overload]
                self.command(), stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True, cwd="/",
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}, **who,
            )  # fmt: skip
