"""Connections that say nothing, or never come to an end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from mqueue.api import wire
from mqueue.api.bodies import Bodies
from mqueue.api.heads import Heads
from mqueue.api.wire import Wire, keep_closing_idle

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def slow(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.sleep(0.5)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    monkeypatch.setattr(wire, "IDLE_S", 0.2)
    monkeypatch.setattr(wire, "LOOK_EVERY_S", 0.02)
    wires: set[Wire] = set()
    shared = {"lane": None, "wires": wires, "heads": Heads(), "bodies": Bodies(2**20)}
    config, state = Config(slow, http=Wire, ws="none", log_config=None), ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Wire(config=config, server_state=state, app_state=shared), "127.0.0.1", 0)
    keep_closing_idle(wires)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"POST / HTTP/1.1\r\ncontent-length: 10\r\n\r\nhalf"])
async def test_a_client_that_does_not_go_on_is_left(port: int, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(5):
        await reader.read()
    took = asyncio.get_running_loop().time() - began
    assert took > 0.15
    writer.close()


async def test_a_client_that_waits_for_its_answer_gets_it_and_is_left_then(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    async with asyncio.timeout(5):
        answer = await reader.read()
    assert answer.endswith(b"ok")
    writer.close()
