"""pgmq: message queues as SQL functions, here from its pure SQL script."""

import asyncpg
from pgmq.async_queue import PGMQueue
from pgmq.install import get_embedded_install_sql

from bench.peers.peer import PAYLOAD, Count, Peer

MESSAGE = {"body": PAYLOAD[:-11]}  # 200 bytes of JSON


class Pgmq(Peer):
    package = "pgmq"
    settings = "its asyncpg client with a pool of 16; send_batch; 4 readers with read of 100 and delete_batch"
    less = "no priorities, retries with backoff, dead letters or events; every client has the database itself"
    consumers = 4
    quickest = 90_000

    async def prepare(self) -> None:
        connection = await asyncpg.connect(self.database)
        await connection.execute(get_embedded_install_sql())
        await connection.close()

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(self.database, min_size=16, max_size=16)
        self._client = PGMQueue(pool=self._pool, init_extension=False)
        await self._client.init()
        await self._client.create_queue(self.queue)

    async def close(self) -> None:
        await self._pool.close()

    async def enqueue(self) -> None:
        await self._client.send(self.queue, MESSAGE)

    async def enqueue_batch(self, count: int) -> None:
        await self._client.send_batch(self.queue, [MESSAGE] * count)

    async def consume(self, count: Count) -> None:
        while True:
            found = await self._client.read_batch(self.queue, vt=30, batch_size=100)
            if found:
                await self._client.delete_batch(self.queue, [message.msg_id for message in found])
                count(len(found))


PEER = Pgmq
