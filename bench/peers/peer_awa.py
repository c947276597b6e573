"""awa-pg: jobs in PostgreSQL, a runtime in Rust, handlers in Python."""

import asyncio
import sys
from dataclasses import dataclass

import asyncpg
from awa import AsyncClient, UniqueConflict

from bench.peers.peer import PAYLOAD, Count, Peer, Spec

SHARDS = """\
INSERT INTO awa.queue_meta (queue, enqueue_shards) VALUES ($1, 16)
ON CONFLICT (queue) DO UPDATE SET enqueue_shards = excluded.enqueue_shards
"""


@dataclass
class Bench:
    body: str


class Awa(Peer):
    package = "awa-pg"
    settings = (
        "AsyncClient with 32 connections, queue storage with 16 enqueue shards; enqueue_many_copy; 256 workers, "
        "2 claimers, claims of 256"
    )
    less = "as it is used here no order between its 16 enqueue shards (with one: half of the single enqueues); no HTTP"
    quickest = 40_000

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._url = self.database.replace("@/", "@localhost/")  # it wants a host, and then uses the socket

    async def prepare(self) -> None:
        command = ["-m", "awa", "--database-url", self._url, "migrate"]
        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.DEVNULL)
        if await process.wait():
            raise RuntimeError("its migration failed")
        await self.open()
        await self._client.install_queue_storage(schema="awa")  # the engine that it is quickest with
        connection = await asyncpg.connect(self.database)
        await connection.execute(SHARDS, self.queue)
        await connection.close()
        await self.close()

    async def open(self) -> None:
        self._client = AsyncClient(self._url, 32)

    async def close(self) -> None:
        await self._client.close()

    async def enqueue(self) -> None:
        try:
            await self._client.insert(Bench(PAYLOAD), queue=self.queue)
        except UniqueConflict:  # the first jobs of a shard race to make its sequence, and all but one of them fail
            await self.enqueue()

    async def enqueue_batch(self, count: int) -> None:
        await self._client.enqueue_many_copy([Bench(PAYLOAD)] * count, queue=self.queue)

    async def consume(self, count: Count) -> None:
        async def work(job: object) -> None:
            count(1)

        self._client.task(Bench, queue=self.queue)(work)
        await self._client.start([{"name": self.queue, "max_workers": 256, "claimers": 2, "claim_batch_size": 256}])
        try:
            await asyncio.Event().wait()
        finally:
            await self._client.shutdown()


PEER = Awa
