"""A proxy in front of a real server's Unix socket, to cut, refuse or freeze what passes."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

from tests.servers import running

SOCKET = ".s.PGSQL.5432"


class Proxy:
    def __init__(self, target: Path, folder: Path) -> None:
        self._target, self._folder = target, folder
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()

    def url(self, database: str) -> str:
        return f"postgresql://mqueue@/{database}?host={quote(str(self._folder), safe='')}"

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._connected, self._folder / SOCKET)

    async def refuse(self) -> None:
        """As a server that is gone: live connections are cut, new ones refused."""
        await self.refuse_new()
        self.cut()

    async def refuse_new(self) -> None:
        """As a server that has no connection left: live ones go on."""
        if self._server:
            self._server.close()
            (self._folder / SOCKET).unlink(missing_ok=True)
            self._server = None

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def freeze(self) -> None:
        """As a network that swallows everything: nobody is told, nothing arrives."""
        self._flows.clear()

    def thaw(self) -> None:
        self._flows.set()

    def strand(self) -> None:
        """As after a node that lost its power came back: what was frozen stays so, new connections do well."""
        self._flows = asyncio.Event()
        self._flows.set()

    async def close(self) -> None:
        await self.refuse()
        self.thaw()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(self._target)
        for source, sink in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._pump(source, sink, self._flows))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, flows: asyncio.Event) -> None:
        self._writers.add(sink)
        try:
            with contextlib.suppress(OSError):
                while data := await source.read(65_536):
                    await flows.wait()
                    sink.write(data)
                    await sink.drain()
        finally:
            self._writers.discard(sink)
            sink.close()


@contextlib.asynccontextmanager
async def proxy() -> AsyncIterator[Proxy]:
    with tempfile.TemporaryDirectory(prefix="mq-proxy-") as folder:
        proxy = Proxy(running().conf.embedded.sockets / SOCKET, Path(folder))
        await proxy.open()
        try:
            yield proxy
        finally:
            await proxy.close()
