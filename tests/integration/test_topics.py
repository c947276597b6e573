"""What a process remembers of topics stays within bounds, however many a tenant names."""

import pytest

from mqueue.core.messages import Dequeue
from mqueue.engine.engine import Engine
from mqueue.engine.topics import Topics
from tests.integration.messages import message, send


async def test_many_topics_are_forgotten_again_and_go_on(
    engine: Engine, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Topics, "REMEMBERED", 20)
    topics: Topics = engine.look._topics
    for start in range(0, 100, 5):
        await send(engine, *(message(namespace, f"t{start + n}") for n in range(5)))
        assert len(topics._numbers) <= 20
        assert all(len(noted) <= 20 for noted in topics._noted.values())
    for n in (0, 50, 99):
        assert len(await engine.dequeue("c", Dequeue(namespace, f"t{n}"))) == 1
