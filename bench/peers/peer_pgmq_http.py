"""pgmq[fastapi]: pgmq behind its own HTTP server."""

import asyncio
import json
import os
import secrets
import socket
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from bench.client import Asking, Requests
from bench.peers.peer import Count
from bench.peers.peer_pgmq import MESSAGE, Pgmq

CONNECTIONS = 64


class PgmqHttp(Pgmq):
    settings = (
        "its FastAPI server on uvicorn with uvloop and httptools, one for each client, asyncpg with a pool of 16, "
        "an API key; read of 100 and delete of 100 by 4 consumers"
    )
    less = "no priorities, retries with backoff, dead letters or events"
    quickest = 50_000

    async def open(self) -> None:
        await super().open()  # makes the queue
        await super().close()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._key = secrets.token_hex(16)
        command = ["-m", "uvicorn", "--factory", "bench.peers.pgmq_app:make", "--port", str(port)]
        command += ["--loop", "uvloop", "--http", "httptools", "--log-level", "error"]
        self._server = await asyncio.create_subprocess_exec(sys.executable, *command, env=self._env())
        self._requests = Requests(self._key)
        self._turn, self._connections = 0, [await connected(port) for _ in range(CONNECTIONS)]

    def _env(self) -> dict[str, str]:
        parts = urlsplit(self.database)
        folder = parse_qs(parts.query)["host"][0]
        server = {"PG_HOST": quote(folder, safe=""), "PG_DATABASE": parts.path[1:], "PG_USERNAME": "mqueue"}
        own = {"POOL": "16", "PGMQ_API_AUTH_MODE": "keys", "PGMQ_API_KEY": self._key}
        return dict(os.environ) | server | own

    async def close(self) -> None:
        self._server.terminate()
        await self._server.wait()

    async def _ask(self, path: str, body: Any) -> Any:
        self._turn += 1
        request = self._requests.post(f"/v1/queues/{self.queue}/{path}", json.dumps(body).encode())
        return json.loads(await self._connections[self._turn % CONNECTIONS].ask(request))

    async def enqueue(self) -> None:
        await self._ask("messages", {"message": MESSAGE})

    async def enqueue_batch(self, count: int) -> None:
        await self._ask("messages/batch", {"messages": [MESSAGE] * count})

    async def consume(self, count: Count) -> None:
        while True:
            found = (await self._ask("read", {"vt": 30, "qty": 100}))["messages"]
            if found:
                await self._ask("messages/delete", {"msg_ids": [message["msg_id"] for message in found]})
                count(len(found))


async def connected(port: int) -> Asking:
    """To a server that is only starting."""
    for _ in range(200):
        with suppress(OSError):
            return await Asking.open(port)
        await asyncio.sleep(0.05)
    raise TimeoutError("its server did not start")


PEER = PgmqHttp
