"""A service of the bench's own: started as a user starts it, in a temporary folder, with nothing of the caller's."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import psycopg

from launch import processes, services
from mqueue.core import conf as configuration
from mqueue.core import tokens
from mqueue.core.conf import ROOT
from mqueue.core.linux import leash

START_S, STOP_S = 90.0, 60.0
RAW = "bench_raw"
TOKEN_LIFETIME_S = 86_400


class ServiceError(Exception):
    """The service did not start; the message ends with its last words."""


class Service:
    """`python -m launch run` with so many shards and API workers; a context that ends it and deletes its folder."""

    def __init__(self, shards: int = 1, workers: int = 1, env: dict[str, str] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mqueue-bench-"))
        self.folder.chmod(0o755)  # the servers may run as another account
        self.settings = {"MQUEUE_SHARDS": str(shards), "MQUEUE_API_WORKERS": str(workers), **(env or {})}
        ports = dict(zip(("MQUEUE_PORT", "METRICS_PORT"), map(str, free_ports(2)), strict=True))
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        own = {"MQUEUE_DATA": str(self.folder / "data"), "JWT_SECRET": secrets.token_hex(32)}
        self.env = kept | own | ports | self.settings
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        self.token = tokens.make(self.conf.jwt_secret, "bench", ["*"], ["*"], TOKEN_LIFETIME_S)

    def start(self) -> None:
        """Start it and wait until it serves."""
        log = self.folder / "launch.log"
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "launch", "run"],
                cwd=ROOT,
                env=self.env,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C reaches the bench alone, which then stops it in order
                preexec_fn=lambda: leash(signal.SIGTERM),  # noqa: PLW1509  no other thread is at work yet
            )
        began = time.monotonic()
        while b"Ctrl-C stops everything" not in log.read_bytes():
            if self._process.poll() is not None or time.monotonic() - began > START_S:
                words = processes.tail(log)
                self.end()
                raise ServiceError(f"the service did not start:\n{words}")
            time.sleep(0.05)
        self.conf = configuration.read(
            {name: value for name, value in self.env.items() if name not in ("PATH", "HOME")}
        )
        (self.folder / "launch.log").write_bytes(b"")

    def stop(self) -> None:
        """Stop it; its data stays."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        self._process = None

    def end(self) -> None:
        """Stop it and delete everything that it wrote."""
        self.stop()
        placed = configuration.read({"MQUEUE_DATA": self.env["MQUEUE_DATA"], "JWT_SECRET": "x" * 32}).embedded
        for folder in (placed.state, placed.sockets, self.folder):
            shutil.rmtree(folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def ports(self) -> list[int]:
        """Where the API listens."""
        return [self.conf.api.port]

    def url(self, database: str) -> str:
        """Another database of the same server."""
        return self.conf.control_url.replace("/mqueue_control?", f"/{database}?")

    def make_raw_database(self) -> str:
        """A database beside the shard with the same tables, made by the same migrations; its URL."""
        own = {
            "MQUEUE_DATA": str(self.folder / "raw"),
            "DATABASE_URLS": self.url(RAW),
            "CONTROL_DATABASE_URL": self.url(f"{RAW}_control"),
            "REDIS_URL": self.conf.redis.url,
        }
        command = services.migrate_command()
        subprocess.run(command, cwd=ROOT, env=self.env | own, check=True, stdout=subprocess.DEVNULL)
        return self.url(RAW)

    def restart_with(self, **settings: str) -> None:
        """Change settings of the PostgreSQL server that need a restart, and restart everything."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            for name, value in settings.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
        self.stop()
        self.start()

    def pid_of(self, name: str) -> int:
        """The first process of one of its parts."""
        return int(json.loads((self.conf.data / "run" / f"{name}.json").read_text())["pid"])


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on; all are held until the last is found, so that they differ."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    found = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return found
