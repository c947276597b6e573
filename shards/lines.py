"""What can be told about a connection by its socket alone, without asking the server."""

import asyncio
import contextlib
import logging
import os
import select
import socket
from collections.abc import Iterator
from typing import Any

from psycopg import AsyncConnection

log = logging.getLogger(__name__)


def has_hung_up(connection: AsyncConnection[Any]) -> bool:
    """An idle connection has nothing to read, unless its server has ended it."""
    if connection.closed:
        return True
    line = select.poll()
    line.register(connection.fileno(), select.POLLIN | select.POLLHUP)
    return bool(line.poll(0))


class Wait:
    """How long a server may be silent on a connection. What ends the wait knows that it did: the clocks of an event
    loop and of its timers may differ in the last digit."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection
        self.was_ended = False

    def end(self) -> None:
        """Not by cancelling: psycopg would then wait for the server to confirm. An end of file it believes at once."""
        self.was_ended = True
        log.warning("a connection has been silent for too long; hanging up")
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def hanging_up_after(seconds: float, connection: AsyncConnection[Any]) -> Iterator[Wait]:
    """The server ends what takes too long; this ends the wait for a server that cannot be heard any more."""
    wait = Wait(connection)
    timer = asyncio.get_running_loop().call_later(seconds, wait.end)
    try:
        yield wait
    finally:
        timer.cancel()
