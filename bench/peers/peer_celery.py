"""Celery on Redis."""

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import redis

from bench.peers.peer import PAYLOAD, Count, Peer, Spec


class OnCelery(Peer):
    package = "celery"
    settings = (
        "64 threads call apply_async; a prefork worker a core, prefetch 64, acks_late, no results, gossip or heartbeat"
    )
    less = "Redis alone, fsynced each second: a crash loses what it had answered; leases are one hour by default"
    batches = False
    at_once: ClassVar[dict[str, tuple[int, ...]]] = {"single": (1, 2), "consume": (1,)}
    quickest = 4_000

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        os.environ["BENCH_BROKER"] = self.redis.replace("unix://", "redis+socket://").replace("?db=", "?virtual_host=")

    async def open(self) -> None:
        from bench.peers.celery_app import task

        self._task, self._threads = task, ThreadPoolExecutor(64)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def enqueue(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, lambda: self._task.apply_async((PAYLOAD,), queue=self.queue))

    async def consume(self, count: Count) -> None:
        client: Any = redis.Redis.from_url(self.redis)
        command = ["-m", "celery", "--app", "bench.peers.celery_app", "worker", "-Q", self.queue, "-P", "prefork"]
        command += ["-c", "2", "-l", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
        worker = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.DEVNULL)
        try:
            left = self._left(client)
            while worker.returncode is None:
                await asyncio.sleep(0.05)
                before, left = left, self._left(client)
                if before > left:
                    count(before - left)
        finally:
            worker.terminate()
            await worker.wait()

    def _left(self, client: Any) -> int:
        """What waits, and what its workers hold without having acked it."""
        return int(client.llen(self.queue)) + int(client.hlen("unacked"))


PEER = OnCelery
