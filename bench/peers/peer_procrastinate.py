"""procrastinate: jobs in PostgreSQL, workers in Python."""

import procrastinate

from bench.peers.peer import PAYLOAD, Count, Peer


class Procrastinate(Peer):
    package = "procrastinate"
    settings = "PsycopgConnector with a pool of 16; batch_defer; workers with concurrency 64, no LISTEN"
    less = (
        "one fetch and one update a job; no lease: a crashed worker's jobs wait for a task that looks for stalled ones"
    )
    quickest = 2_000

    async def prepare(self) -> None:
        await self.open()
        await self._app.schema_manager.apply_schema_async()
        await self.close()

    async def open(self) -> None:
        connector = procrastinate.PsycopgConnector(conninfo=self.database, min_size=16, max_size=16)
        self._app = procrastinate.App(connector=connector)
        self._count: Count = print
        self._task = self._app.task(name="bench", queue=self.queue)(self._work)
        await self._app.open_async()

    async def close(self) -> None:
        await self._app.close_async()

    async def _work(self, body: str) -> None:
        self._count(1)

    async def enqueue(self) -> None:
        await self._task.defer_async(body=PAYLOAD)

    async def enqueue_batch(self, count: int) -> None:
        await self._task.batch_defer_async(*[{"body": PAYLOAD}] * count)

    async def consume(self, count: Count) -> None:
        self._count = count
        await self._app.run_worker_async(
            queues=[self.queue], concurrency=64, listen_notify=False, install_signal_handlers=False
        )


PEER = Procrastinate
