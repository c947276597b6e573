"""The service as a user starts it: `python -m launch run` in a process of its own, and a client that speaks HTTP."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil

from mqueue.core import tokens
from mqueue.core.conf import ROOT

SETTINGS = (
    "DATABASE_URLS",
    "CONTROL_DATABASE_URL",
    "REDIS_URL",
    "JWT_SECRET",
    "MQUEUE_DATA",
    "MQUEUE_PORT",
    "METRICS_PORT",
    "WAL_DIR",
    "MAKELEVEL",
)
START_S, STOP_S = 60.0, 30.0
SECRET = "test-" * 10


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Service:
    def __init__(self, data: Path, env: dict[str, str] | None = None, command: list[str] | None = None) -> None:
        self.data, self.port, self.metrics_port = data, free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.metrics_url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        self.log = data.parent / f"{data.name}.log"
        inherited = {name: value for name, value in os.environ.items() if name not in SETTINGS}
        ports = {"MQUEUE_PORT": str(self.port), "METRICS_PORT": str(self.metrics_port)}
        ours = {"MQUEUE_DATA": str(data), "JWT_SECRET": SECRET} | ports
        self.env = inherited | ours | (env or {})
        self._command = command or [sys.executable, "-m", "launch", "run"]
        self.process: subprocess.Popen[bytes] | None = None
        self._began_at = 0

    def start(self, *, wait: bool = True, cwd: Path = ROOT) -> "Service":
        self._began_at = len(self.output())
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen(
                self._command, env=self.env, cwd=cwd, stdout=output, stderr=output, start_new_session=True
            )
        if wait:
            self.until(lambda: "Ctrl-C stops everything" in self.last_output(), START_S, "the service is up")
        return self

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop; the exit code."""
        assert self.process
        self.process.send_signal(number)
        return self.process.wait(STOP_S)

    def end(self) -> None:
        """For a fixture's end: whatever state a test left it in, nothing stays behind."""
        if self.process and self.process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for process in self.descendants():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def last_output(self) -> str:
        """Since the last start."""
        return self.output()[self._began_at :]

    def until(self, condition: Callable[[], object], patience_s: float, what: str) -> float:
        """Wait for what other processes do; the seconds it took."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > patience_s:
                raise AssertionError(f"not within {patience_s} s: {what}\n{self.output()[-4000:]}")
            assert self.process is None or self.process.poll() is None, f"it ended\n{self.output()[-4000:]}"
            time.sleep(0.02)
        return time.monotonic() - began

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ready").status_code == 200
        except httpx.TransportError:
            return False

    def pid_of(self, name: str) -> int:
        pid: int = json.loads((self.data / "run" / f"{name}.json").read_text())["pid"]
        return pid

    def descendants(self) -> list[psutil.Process]:
        """Every live process that was started with our data folder."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, FileNotFoundError):
                names_us = any(str(self.data) in part for part in process.cmdline())
                if names_us or process.environ().get("MQUEUE_DATA") == str(self.data):
                    found.append(process)
        return [process for process in found if process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid()]

    def client(
        self, *, namespaces: list[str] | None = None, scopes: list[str] | None = None, **claims: Any
    ) -> httpx.Client:
        token = tokens.make(SECRET, claims.get("subject", "tester"), namespaces or ["*"], scopes or ["*"], 3600)
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=30)

    def shown_token(self) -> str:
        found = re.findall(r"export TOKEN=(\S+)", self.output())
        return str(found[-1])
