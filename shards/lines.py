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


@contextlib.contextmanager
def hanging_up_after(seconds: float, connection: AsyncConnection[Any]) -> Iterator[asyncio.TimerHandle]:
    """The server ends what takes too long; this ends the wait for a server that cannot be heard any more.

    Not by cancelling: psycopg would then wait for the server to confirm. An end of file it believes at once.
    """
    timer = asyncio.get_running_loop().call_later(seconds, _hang_up, connection)
    try:
        yield timer
    finally:
        timer.cancel()


def was_silent(timer: asyncio.TimerHandle) -> bool:
    """Whether the wait was ended by us."""
    return asyncio.get_running_loop().time() >= timer.when()


def _hang_up(connection: AsyncConnection[Any]) -> None:
    log.warning("a connection has been silent for too long; hanging up")
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
