"""pgqueuer: jobs in PostgreSQL, workers in Python."""

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers.peer import PAYLOAD, Count, Peer


class Pgqueuer(Peer):
    package = "pgqueuer"
    settings = "asyncpg pool of 16; enqueue with lists; workers with batch_size 500, acks buffered by it"
    less = "a job whose handler fails is deleted by default, and none is retried unless its handler says so"
    quickest = 50_000

    async def prepare(self) -> None:
        await self.open()
        await self._queries.install()
        await self.close()

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(self.database, min_size=16, max_size=16)
        self._driver = AsyncpgPoolDriver(self._pool)
        self._queries = Queries(self._driver)

    async def close(self) -> None:
        await self._pool.close()

    async def enqueue(self) -> None:
        await self._queries.enqueue(self.queue, PAYLOAD.encode(), 0)

    async def enqueue_batch(self, count: int) -> None:
        await self._queries.enqueue([self.queue] * count, [PAYLOAD.encode()] * count, [0] * count)

    async def consume(self, count: Count) -> None:
        worker = PgQueuer(self._driver)

        async def work(job: Job) -> None:
            count(1)

        worker.entrypoint(self.queue)(work)
        await worker.qm.run(batch_size=500)


PEER = Pgqueuer
