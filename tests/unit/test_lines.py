"""What is told about a connection by its socket alone, in the loop that serves."""

import asyncio
import socket
from typing import Any

import uvloop

from shards.lines import hanging_up_after

TRIES = 300


async def _wait_ended_by_us() -> bool:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        connection: Any = ours  # nothing but its descriptor is used
        with hanging_up_after(0.002, connection) as wait:
            assert await asyncio.get_running_loop().sock_recv(theirs, 1) == b""
        return wait.was_ended


def test_a_wait_that_we_ended_is_known_as_such_whatever_the_clock_of_the_loop_says() -> None:
    """One in some is noticed within the millisecond for which its timer was set, and there the two clocks of uvloop
    differ in the last digit: what was taken for a loss lets the next caller wait for as long again."""

    async def count() -> int:
        return sum([await _wait_ended_by_us() for _ in range(TRIES)])

    assert uvloop.run(count()) == TRIES


def test_a_wait_that_ended_by_itself_was_not_ended_by_us() -> None:
    async def answered() -> bool:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            connection: Any = ours
            with hanging_up_after(5, connection) as wait:
                await asyncio.sleep(0)
            return wait.was_ended

    assert not uvloop.run(answered())
