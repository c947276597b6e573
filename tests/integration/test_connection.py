"""Connections to Redis: whatever happens to one, whoever calls is told in words that he knows."""

import asyncio

import pytest
import uvloop
from redis.exceptions import ConnectionError  # noqa: A004  redis's own

from mqueue.core.conf import Conf
from mqueue.hot.connection import connect


async def write_to_a_closed_line(conf: Conf) -> None:
    client = connect(conf.redis, timeout_s=2)
    connection = await client.connection_pool.get_connection()
    try:
        await connection.send_command("PING")
        assert await connection.read_response() in (b"PONG", "PONG")
        connection._writer.transport.abort()  # as when the other end hangs up, and nobody has read that yet
        await asyncio.sleep(0)
        await connection.send_command("PING", check_health=False)
    finally:
        await connection.disconnect()
        await client.aclose()


def test_a_line_that_was_closed_a_moment_ago_is_a_server_that_is_gone(configuration: Conf) -> None:
    """uvloop has a RuntimeError for that, which was answered with 500."""
    with pytest.raises(ConnectionError):
        uvloop.run(write_to_a_closed_line(configuration))
