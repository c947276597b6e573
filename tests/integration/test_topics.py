"""What a process remembers of topics stays within bounds, however many a tenant names."""

import psycopg
import pytest

from mqueue.core.messages import Dequeue
from mqueue.engine.engine import Engine
from mqueue.engine.topics import Topics
from tests.integration.messages import message, send
from tests.servers import conf_of


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


async def test_a_service_that_had_few_topics_makes_thousands_at_once(fresh_databases: str) -> None:
    """Plans that were kept from then read every topic for each name, for longer than a statement may take."""
    conf = conf_of(fresh_databases, 0)
    engine = Engine(conf)
    await engine.open()
    try:
        for n in range(60):  # so that every connection has kept its plans
            await engine.look._topics.find_or_make([("n", f"few-{n}")])
        with psycopg.connect(conf.control_url, autocommit=True) as control:
            control.execute(
                "INSERT INTO topic (namespace_id, name) "
                "SELECT id, 'grown-' || n FROM namespace, generate_series(1, 60000) n WHERE namespace.name = 'n'"
            )
        assert len(await engine.look._topics.find_or_make([("n", f"new-{n}") for n in range(5_000)])) == 5_000
    finally:
        await engine.close()
