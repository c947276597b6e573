"""An HTTP/1.1 client for load: keep-alive, one request at a time on a connection, as little work as possible.

It shares the cores with what it measures, so each microsecond it spends is missing there. It looks at the status and
the content-length of an answer and at nothing else, and wakes nobody: a script, a generator that yields requests and
gets answers, goes on within the callback that brought the answer.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import cast

Script = Generator[bytes | None, bytes, None]
HEAD_END, LENGTH, OK = b"\r\n\r\n", b"content-length: ", b"HTTP/1.1 2"
WORDS = 500  # of a refusal, as many bytes are told


class Refused(Exception):
    """An answer other than 2xx, or none: the figures of such a run would mean nothing."""


class Requests:
    """Requests of one token, as bytes that can be sent again and again."""

    def __init__(self, token: str) -> None:
        self._head = f" HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n"

    def post(self, path: str, body: bytes) -> bytes:
        """A POST of a JSON body."""
        return f"POST {path}{self._head}content-length: {len(body)}\r\n\r\n".encode() + body

    def get(self, path: str) -> bytes:
        """A GET."""
        return f"GET {path}{self._head}\r\n".encode()


class Connection(asyncio.Protocol):
    """One connection; each whole answer goes to `answered`."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parts: list[bytes] = []
        self._missing = 0  # bytes of the answer's body that are still to come; 0: its head is
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not subclasses of it

    def send(self, request: bytes) -> None:
        """Send a request; nothing else may be under way on this connection."""
        assert self._transport
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._take(data)
            return
        if self._parts:  # the head came in pieces
            data = self._parts.pop() + data
        end = data.find(HEAD_END)
        if end < 0:
            self._parts.append(data)
            return
        at = data.find(LENGTH, 0, end + 2)
        if at < 0 or not data.startswith(OK):
            self.failed(Refused(data[:WORDS].decode(errors="replace")))
            return
        self._missing = int(data[at + len(LENGTH) : data.index(b"\r\n", at)])
        self._take(data[end + 4 :])

    def _take(self, data: bytes) -> None:
        self._missing -= len(data)
        if self._missing:
            self._parts.append(data)
            return
        if self._parts:
            data = b"".join([*self._parts, data])
            self._parts.clear()
        self.answered(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._closing:
            self.failed(Refused(f"the connection was closed: {exc}"))

    def close(self) -> None:
        """Say goodbye."""
        self._closing = True
        if self._transport:
            self._transport.close()

    def answered(self, body: bytes) -> None:
        """The body of a 2xx."""
        raise NotImplementedError

    def failed(self, error: Exception) -> None:
        """Anything else."""
        raise NotImplementedError


class Scripted(Connection):
    """Runs a script: what it yields is sent, what comes back is sent into it. None parks it until `go`."""

    def __init__(self, script: Script, ended: Callable[[Exception | None], None]) -> None:
        super().__init__()
        self._script, self._ended = script, ended

    def go(self) -> None:
        """Start the script, or go on with it where it was parked."""
        self._step(None)

    def answered(self, body: bytes) -> None:
        self._step(body)

    def _step(self, answer: bytes | None) -> None:
        try:
            request = next(self._script) if answer is None else self._script.send(answer)
        except StopIteration:
            self._ended(None)
        except Exception as error:  # noqa: BLE001  whatever is wrong with a script ends the run
            self._ended(error)
        else:
            if request is not None:
                self.send(request)

    def failed(self, error: Exception) -> None:
        self._ended(error)


class Asking(Connection):
    """For coroutines, where a microsecond does not matter."""

    def __init__(self) -> None:
        super().__init__()
        self._answer: asyncio.Future[bytes] | None = None
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, port: int) -> "Asking":
        """Connect to this machine."""
        _, connection = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return connection

    async def ask(self, request: bytes) -> bytes:
        """The body of the answer. Callers queue, since a connection has one request at a time."""
        async with self._turn:
            self._answer = asyncio.get_running_loop().create_future()
            self.send(request)
            return await self._answer

    def answered(self, body: bytes) -> None:
        if self._answer and not self._answer.done():
            self._answer.set_result(body)

    def failed(self, error: Exception) -> None:
        if self._answer and not self._answer.done():
            self._answer.set_exception(error)
