"""All that a run starts: servers behind lines, the service as a user starts it, and a second daemon of each kind."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Self

import psutil

from mqueue.core import tokens
from mqueue.core.conf import ROOT
from shards.resharding.record import read_owners
from shards.routing import default_owners, slot_of
from tests.faults.checker.disks import Disk
from tests.faults.checker.lines import Lines
from tests.faults.checker.messages import NAMESPACE
from tests.faults.checker.mover import Mover
from tests.faults.checker.postgres import Postgres
from tests.faults.checker.server import Server
from tests.faults.checker.valkey import Valkey
from tests.faults.checker.watch import ask
from tests.service import SECRET, Service

SHARDS, API_WORKERS, TOPICS_A_SHARD = 2, 2, 4
KINDS = ("prefetcher", "leases", "flusher", "usage")
DAY_S = 86_400
STEPPING = Path(__file__).parent / "points"


class Daemon:
    """A second one of a kind, kept running as an init system would."""

    def __init__(self, kind: str, env: dict[str, str], log: Path) -> None:
        self._command = [sys.executable, str(ROOT / "manage.py"), "daemon", kind]
        self._env, self._log = env, log
        self._closed = threading.Event()
        self._spawn()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def close(self) -> None:
        self._closed.set()
        self._keeper.join(5)
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _keep(self) -> None:
        while not self._closed.wait(0.2):
            if self._process.poll() is not None:
                self._spawn()

    def _spawn(self) -> None:
        with open(self._log, "ab") as output:
            self._process = subprocess.Popen(
                self._command, env=self._env, cwd=ROOT, stdout=output, stderr=output, start_new_session=True
            )


class Stage:
    """A context: what it started is ended with it."""

    def __init__(self, folder: Path, *, disks: bool, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self._ends = contextlib.ExitStack()
        self.control = Postgres("control", folder / "control", "mqueue_control", None)
        disk = [Disk() if disks else None for _ in range(2)]
        self.shards = [
            Postgres(
                f"shard {n}", folder / f"shard-{n}", f"mqueue_shard_{n}", self.control, disk[0] if n == 1 else None
            )
            for n in range(SHARDS)
        ]
        self.redis = Valkey("redis", folder / "redis", disk[1])
        self.servers: dict[str, Server] = {one.name: one for one in (self.control, *self.shards, self.redis)}
        self._more_env = env or {}
        self.points = folder / "points"
        self.points.mkdir()
        self.seconds: dict[str, Daemon] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as ends:
            for server in self.servers.values():
                ends.callback(server.close)
            for server in self.servers.values():
                server.open()
            self.lines = Lines({name: server.address for name, server in self.servers.items()})
            ends.callback(self.lines.close)
            self.service = Service(self.folder / "data", self._env())
            ends.callback(self.service.end)
            self.service.start()
            self.mover = Mover(self.service.env, self.folder / "mover.log")
            ends.callback(self.mover.close)
            for kind in KINDS:
                self.seconds[kind] = Daemon(kind, self.service.env, self.folder / f"{kind}.log")
                ends.callback(self.seconds[kind].close)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.servers:
            for verb in ("thaw", "accept"):
                self.lines.obey(name, verb)
        self._ends.close()

    @property
    def token(self) -> str:
        return tokens.make(SECRET, "checker", ["*"], ["*"], DAY_S)

    @property
    def topics(self) -> list[str]:
        """As many on each shard, by turns; every other two are deep."""
        owners = default_owners(SHARDS)
        found: list[list[str]] = [[] for _ in range(SHARDS)]
        for n in range(1000):
            found[owners[slot_of(NAMESPACE, f"t{n}")]].append(f"t{n}")
        return [topics[n] for n in range(TOPICS_A_SHARD) for topics in found]

    @property
    def deep(self) -> list[str]:
        return self.topics[len(self.topics) // 2 :]

    def shard_of(self, topic: str) -> int:
        """Where it lives now."""
        return read_owners(self.control.url)[slot_of(NAMESPACE, topic)]

    def database(self, rng: Random) -> Postgres:
        """Any of them; a shard more often."""
        return rng.choice([*self.shards, *self.shards, self.control])

    def shard(self, rng: Random) -> Postgres:
        return rng.choice(self.shards)

    def api_workers(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error, OSError, ValueError):
            parent = psutil.Process(self.service.pid_of("api"))
            return [one for one in parent.children() if "mqueue.worker" in " ".join(one.cmdline())]
        return []

    def signal(self, name: str, number: int) -> int:
        """To a process of the service, with what it has started."""
        pid = self.service.pid_of(name)
        with contextlib.suppress(ProcessLookupError):
            if number in (signal.SIGSTOP, signal.SIGCONT):
                os.killpg(pid, number)
            else:
                os.kill(pid, number)
        return pid

    def until_well(self, patience_s: float) -> bool:
        """Well several times in a row: each of the API's processes may answer."""
        deadline, in_a_row = time.monotonic() + patience_s, 0
        while in_a_row < 3 * API_WORKERS:
            in_a_row = in_a_row + 1 if ask(self.service.port).status == "OK" else 0
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def _env(self) -> dict[str, str]:
        def url(server: Postgres) -> str:
            return f"postgresql://mqueue@127.0.0.1:{self.lines.ports[server.name]}/{server.database}"

        return {
            "DATABASE_URLS": ",".join(url(shard) for shard in self.shards),
            "CONTROL_DATABASE_URL": url(self.control),
            "REDIS_URL": f"redis://127.0.0.1:{self.lines.ports['redis']}/0",
            "MQUEUE_API_WORKERS": str(API_WORKERS),
            "PYTHONPATH": str(STEPPING),
            "CHECKER_POINTS": str(self.points),
        } | self._more_env
