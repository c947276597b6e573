"""HTTP/1.1 for the load: one request at a time on a connection, and an honest word on how it ended."""

import asyncio
import json
from contextlib import suppress
from typing import Any, NamedTuple

from tests.faults.checker.times import now

PATIENCE_S = 30.0  # far beyond any limit of the service: what takes longer hangs
CONNECT_S = 10.0


class Answer(NamedTuple):
    began: int
    ended: int
    status: int  # 0: none came
    body: Any
    was_sent: bool  # perhaps: otherwise nobody can have acted on it
    has_left: bool = False  # the client, before an answer came
    says_when: bool = True  # to try again

    @property
    def is_unknown(self) -> bool:
        """Whether the service may have done it, and may not."""
        return self.was_sent and (self.status == 0 or self.status >= 500)


class Client:
    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._head = f"host: checker\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, method: str, path: str, body: Any = None, *, leave_after_s: float | None = None) -> Answer:
        """Whatever happens, an Answer. `leave_after_s`: a client that goes away in the middle."""
        began, was_sent = now(), False
        try:
            reader, writer = await self._connected()
            content = b"" if body is None else json.dumps(body).encode()
            head = f"{method} {path} HTTP/1.1\r\n{self._head}content-length: {len(content)}\r\n\r\n"
            async with asyncio.timeout(leave_after_s or PATIENCE_S):
                was_sent = True
                writer.write(head.encode() + content)
                status, answer, says_when = await self._read(reader)
            return Answer(began, now(), status, answer, was_sent, says_when=says_when)
        except (OSError, EOFError, TimeoutError, ValueError):
            self.close()
            return Answer(began, now(), 0, None, was_sent, leave_after_s is not None)
        except BaseException:
            self.close()  # an answer may still come, and is not the next call's
            raise

    def close(self) -> None:
        if self._streams:
            with suppress(Exception):
                self._streams[1].transport.abort()
            self._streams = None

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            async with asyncio.timeout(CONNECT_S):
                self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
        return self._streams

    async def _read(self, reader: asyncio.StreamReader) -> tuple[int, Any, bool]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status = int(head[9:12])
        length = int(head.split("content-length:", 1)[1].split("\r\n", 1)[0])
        content = await reader.readexactly(length)
        if "connection: close" in head:
            self.close()
        return status, json.loads(content) if content else None, "\r\nretry-after: " in head
