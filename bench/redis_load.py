"""python -m bench.redis_load: ZADD and ZPOPMIN on Redis alone. Speaks as `bench.load` does.

Each connection has a set of its own, and sends `pipeline` commands at a time: as many to add as to pop.
"""

import asyncio
import time
from functools import partial
from typing import Any, cast

import uvloop

from bench.speak import begin, obey

MEMBER = 24


class RedisConnection(asyncio.Protocol):
    """Adds to its set and pops from it. Answers have a known length, so they are counted and not read."""

    def __init__(self, number: int, pairs: int, single: bool) -> None:
        key, member = b"bench:%d" % number, b"m" * MEMBER
        add, pop = command(b"ZADD", key, b"5", member), command(b"ZPOPMIN", key)
        answers = len(b":1\r\n"), len(b"*2\r\n$24\r\n" + member + b"\r\n$1\r\n5\r\n")
        self._rounds = (
            [(add, answers[0]), (pop, answers[1])] if single else [((add + pop) * pairs, sum(answers) * pairs)]
        )
        self._commands = 1 if single else 2 * pairs
        self._turn, self._missing, self.done = 0, 0, 0
        self.error: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"-"):
            self.error = data.decode()
        self._missing -= len(data)
        if not self._missing:
            self.done += self._commands
            self._send()

    def _send(self) -> None:
        request, self._missing = self._rounds[self._turn % len(self._rounds)]
        self._turn += 1
        self.transport.write(request)


def command(*parts: bytes) -> bytes:
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


async def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Commands a second."""
    loop, connections = asyncio.get_running_loop(), []
    for number in range(spec["connections"]):
        made = partial(RedisConnection, number, spec["pipeline"] // 2, spec["pipeline"] == 1)
        connections.append((await loop.create_unix_connection(made, spec["socket"]))[1])
    await asyncio.sleep(spec["seconds"] / 4)
    begin()
    began, before = time.perf_counter(), sum(each.done for each in connections)
    await asyncio.sleep(spec["seconds"])
    took, done = time.perf_counter() - began, sum(each.done for each in connections) - before
    for each in connections:
        if each.error:
            raise RuntimeError(each.error)
        each.transport.close()
    return {"seconds": took, "messages": done, "rate": done / took}


if __name__ == "__main__":
    obey(lambda spec: uvloop.run(run(spec)))
