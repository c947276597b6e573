"""Polls of topics that nobody has made yet: consumers often start before their producer does."""

import asyncio
import time
from typing import Any

import pytest

from mqueue.core.conf import Conf
from mqueue.core.errors import ControlUnavailable
from mqueue.core.messages import Dequeue
from mqueue.engine.engine import Engine
from tests.integration.messages import message, send


async def bodies_of(polls: "list[asyncio.Task[Any]]") -> list[bytes]:
    return sorted(bytes(one.body) for found in await asyncio.gather(*polls) for one in found)


def poll(engine: Engine, namespace: str, topic: str, wait_ms: int) -> "asyncio.Task[Any]":
    return asyncio.create_task(engine.dequeue("c", Dequeue(namespace, topic, wait_ms=wait_ms)))


async def test_thousands_of_them_cost_next_to_nothing(engine: Engine, namespace: str) -> None:
    polls = [poll(engine, namespace, f"unmade-{n % 300}", 20_000) for n in range(3_000)]
    await asyncio.sleep(0.3)
    while sum(map(len, engine.dequeue.__self__._topics._awaited.values())) < len(polls):  # type: ignore[attr-defined]
        await asyncio.sleep(0.1)
    began = time.process_time()
    await asyncio.sleep(1)
    assert time.process_time() - began < 0.4  # 1.5 s, if each of them looks
    for one in polls:
        one.cancel()
    await asyncio.gather(*polls, return_exceptions=True)


@pytest.mark.parametrize("by", ["this process", "another"])
async def test_all_who_wait_are_served_when_it_is_made(
    engine: Engine, namespace: str, configuration: Conf, by: str
) -> None:
    polls = [poll(engine, namespace, topic, 8_000) for topic in "abb"]
    await asyncio.sleep(0.3)
    other = Engine(configuration)
    await other.open()
    try:
        began = time.monotonic()
        sender = other if by == "another" else engine
        await send(sender, *(message(namespace, topic, n) for n, topic in enumerate("abb")))
        assert await bodies_of(polls) == [b"0", b"1", b"2"]
        assert time.monotonic() - began < 5
    finally:
        await other.close()


async def test_who_gives_up_does_not_end_the_search_for_others(engine: Engine, namespace: str) -> None:
    stays, leaves = poll(engine, namespace, "a", 8_000), poll(engine, namespace, "a", 8_000)
    alone = poll(engine, namespace, "b", 8_000)
    assert await poll(engine, namespace, "c", 50) == []
    await asyncio.sleep(0.15)
    leaves.cancel()
    alone.cancel()
    await asyncio.gather(leaves, alone, return_exceptions=True)
    again = poll(engine, namespace, "b", 8_000)
    await asyncio.sleep(0.3)
    await send(engine, message(namespace, "a", 1), message(namespace, "b", 2))
    assert await bodies_of([stays, again]) == [b"1", b"2"]


async def test_whoever_waits_is_told_when_nobody_can_look(
    engine: Engine, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls = [poll(engine, namespace, "a", 8_000) for _ in range(3)]
    await asyncio.sleep(0.3)

    async def fail(*_: object) -> None:
        raise ControlUnavailable

    with monkeypatch.context() as patch:
        patch.setattr("mqueue.engine.topics.find_topics", fail)
        told = await asyncio.gather(*polls, return_exceptions=True)
    assert [type(one) for one in told] == [ControlUnavailable] * 3
    again = poll(engine, namespace, "a", 8_000)
    await asyncio.sleep(0.3)
    await send(engine, message(namespace, "a", 1))
    assert await bodies_of([again]) == [b"1"]
