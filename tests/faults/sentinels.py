"""A Redis that fails over: a master, a replica, and sentinels that watch them."""

import contextlib
import subprocess
from pathlib import Path
from typing import Self

import redis

from launch import embedded
from mqueue.core.conf import Embedded
from tests.service import free_port

MASTER = "heads"
DOWN_AFTER_MS = 1_000


class Sentinels:
    def __init__(self, folder: Path, sentinels: int) -> None:
        placed = Embedded(postgres=False, redis=True, shards=1, state=folder, sockets=folder)
        self._program = embedded.valkey_command(placed, None)[0]
        self._folder = folder
        self.ports = [free_port(), free_port()]
        self.sentinel_ports = [free_port() for _ in range(sentinels)]
        self._quorum = sentinels // 2 + 1
        self._ends = contextlib.ExitStack()
        self.servers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        for number, port in enumerate(self.ports):
            replica = ["--replicaof", "127.0.0.1", str(self.ports[0])] if number else []
            self.servers.append(self._start(f"server-{number}", "--port", str(port), "--save", "", *replica))
        for number, port in enumerate(self.sentinel_ports):
            settings = self._folder / f"sentinel-{number}.conf"
            settings.write_text(
                f"port {port}\n"
                f"sentinel monitor {MASTER} 127.0.0.1 {self.ports[0]} {self._quorum}\n"
                f"sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}\n"
                f"sentinel failover-timeout {MASTER} 5000\n"
            )
            self._start(f"sentinel-{number}", str(settings), "--sentinel")
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    @property
    def env(self) -> dict[str, str]:
        return {
            "REDIS_SENTINELS": ",".join(f"127.0.0.1:{port}" for port in self.sentinel_ports),
            "REDIS_MASTER": MASTER,
        }

    def is_ready(self) -> bool:
        """The replica follows, and each sentinel knows it and the others."""
        try:
            for port in self.sentinel_ports:
                with redis.Redis(port=port, decode_responses=True) as sentinel:
                    state = sentinel.sentinel_master(MASTER)
                    if state["num-slaves"] != 1 or state["num-other-sentinels"] != len(self.sentinel_ports) - 1:
                        return False
            with redis.Redis(port=self.ports[1], decode_responses=True) as replica:
                return bool(replica.info("replication")["master_link_status"] == "up")
        except (redis.RedisError, KeyError):
            return False

    def master(self) -> int:
        """The port of the one that the sentinels name."""
        with contextlib.suppress(redis.RedisError), redis.Redis(port=self.sentinel_ports[-1]) as sentinel:
            return int(sentinel.sentinel_get_master_addr_by_name(MASTER)[1])
        return 0

    def _start(self, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        folder = self._folder / name
        folder.mkdir()
        with open(folder.with_suffix(".log"), "ab") as log:
            process = subprocess.Popen([self._program, *arguments], cwd=folder, stdout=log, stderr=log)
        self._ends.callback(self._end, process)
        return process

    @staticmethod
    def _end(process: "subprocess.Popen[bytes]") -> None:
        process.kill()
        process.wait()
