"""saq: jobs in Redis, asyncio workers."""

from typing import Any

import redis.asyncio
from saq import Worker
from saq.queue.redis import RedisQueue

from bench.peers.peer import PAYLOAD, Count, Peer


class Saq(Peer):
    package = "saq"
    settings = "redis-py with hiredis; a worker with concurrency 64"
    less = "Redis alone, fsynced each second: a crash loses what it had answered; no strict order, no dead letters"
    batches = False

    async def open(self) -> None:
        self._queue = RedisQueue(
            redis.asyncio.Redis.from_url(self.redis), name=self.queue
        )  # it takes no unix:// itself
        await self._queue.connect()

    async def close(self) -> None:
        await self._queue.disconnect()

    async def enqueue(self) -> None:
        await self._queue.enqueue("work", body=PAYLOAD)

    async def consume(self, count: Count) -> None:
        async def work(context: Any, *, body: str) -> None:
            count(1)

        worker = Worker(self._queue, functions=[("work", work)], concurrency=64)
        worker.SIGNALS = []
        await worker.start()


PEER = Saq
