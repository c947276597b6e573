"""python -m tests.faults.checker.lines: a TCP line in front of each server's Unix socket, to slow, cut and silence it.

A process of its own, so that the traffic does not wait for who injects the faults. It reads the sockets' paths as a
line of JSON, answers with the ports, and then takes one order a line, `[name, verb, argument]`, and answers `done`.
"""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
from pathlib import Path

import uvloop

STRANDED_S = 30.0


class Line:
    """What goes to one server and comes back."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._delay_s = 0.0
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def open(self) -> None:
        listener = socket.create_server(("127.0.0.1", self.port), backlog=500)
        self.port = listener.getsockname()[1]
        self._server = await asyncio.start_server(self._connected, sock=listener, backlog=500)

    async def obey(self, verb: str, argument: float) -> None:
        if verb == "cut":
            self._cut()
        elif verb == "freeze":
            self._flows.clear()
        elif verb == "thaw":
            self._flows.set()
        elif verb == "strand":
            self._strand()
        elif verb == "delay":
            self._delay_s = argument
        elif verb == "refuse" and self._server:
            self._server.close()
            self._server = None
            self._cut()
        elif verb == "accept" and not self._server:
            await self.open()

    def _strand(self) -> None:
        """Those that there are stay silent, and what is on its way is lost with them; new ones do well."""
        self._flows.clear()
        self._flows = asyncio.Event()
        self._flows.set()
        asyncio.get_running_loop().call_later(STRANDED_S, _give_up, set(self._tasks))

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.transport.abort()
            return
        for source, sink in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._pump(source, sink, self._flows))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, flows: asyncio.Event) -> None:
        self._writers.add(sink)
        try:
            with contextlib.suppress(OSError, RuntimeError):  # uvloop: the handler is closed
                while data := await source.read(65_536):
                    await flows.wait()
                    if self._delay_s:
                        await asyncio.sleep(self._delay_s)
                    sink.write(data)
                    await sink.drain()
        finally:
            self._writers.discard(sink)
            sink.close()


def _give_up(stranded: "set[asyncio.Task[None]]") -> None:
    """Nobody can wait for them any more."""
    for task in stranded:
        task.cancel()


class Lines:
    """The process, for who injects the faults."""

    def __init__(self, targets: dict[str, Path]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ports: dict[str, int] = json.loads(self._tell({name: str(path) for name, path in targets.items()}))

    def obey(self, name: str, verb: str, argument: float = 0.0) -> None:
        assert self._tell([name, verb, argument]) == "done\n"

    def close(self) -> None:
        with self._process:  # closes its pipes, and waits
            pass

    def _tell(self, order: object) -> str:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


async def serve() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    lines = {name: Line(Path(path)) for name, path in json.loads(await reader.readline()).items()}
    for line in lines.values():
        await line.open()
    print(json.dumps({name: line.port for name, line in lines.items()}), flush=True)
    while order := await reader.readline():
        name, verb, argument = json.loads(order)
        await lines[name].obey(verb, argument)
        print("done", flush=True)


if __name__ == "__main__":
    uvloop.run(serve())
