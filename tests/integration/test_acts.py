"""Acts of the admin on dead letters that are done in part: what was begun is on record, whatever became of it."""

import asyncio
import secrets
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client

from mqueue.api.bridge import bridge
from mqueue.core.conf import Conf
from mqueue.core.errors import ShardUnavailable
from mqueue.core.messages import DeadChoice
from mqueue.engine.dead import DeadLetters
from mqueue.engine.engine import Engine
from tenants.models import Namespace
from tests.integration.test_dead_search import ids, kill

REAL = {"delete": DeadLetters.delete, "replay": DeadLetters.replay}


@pytest.fixture
def person(django_db_blocker: Any, namespace: str) -> Iterator[Client]:
    """A superuser in a browser."""
    with django_db_blocker.unblock():
        browser = Client()
        browser.force_login(User.objects.create_superuser(f"root-{secrets.token_hex(4)}"))
        Namespace.objects.get_or_create(name=namespace)
        yield browser
    bridge().close()
    connections["default"].close()
    connections["default"].close_pool()  # type: ignore[attr-defined]


def noted(configuration: Conf, namespace: str) -> list[Any]:
    with psycopg.connect(configuration.control_url) as control:
        return control.execute("SELECT action, after FROM audit WHERE namespace = %s", [namespace]).fetchall()


@pytest.mark.parametrize("verb", ["delete", "replay"])
async def test_an_act_that_fails_half_way_leaves_a_line_of_what_it_did(
    engine: Engine,
    configuration: Conf,
    namespace: str,
    person: Client,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
) -> None:
    first, second = [await kill(engine, namespace, topic) for topic in ("a", "b")]

    async def failing(letters: DeadLetters, who: str, choice: DeadChoice) -> int:
        if choice.topic == "b":
            raise ShardUnavailable("It is away")
        return await REAL[verb](letters, who, choice)

    monkeypatch.setattr(DeadLetters, verb, failing)
    form = {"chosen": [f"{first}:a", f"{second}:b"], "verb": verb, "confirmed": "yes"}
    at = f"/admin/messages/{namespace}/dlq/act/"
    answer = await asyncio.to_thread(person.post, at, form)
    assert answer.status_code == 503
    assert b"It is away" in answer.content
    assert await ids(engine, namespace) == [second]
    chosen = {"a": [first], "b": [second]}
    found = noted(configuration, namespace)
    assert found == [(f"dead.{verb}", {"chosen": chosen, "done": 1, "error": "shard_unavailable: It is away"})]


async def test_an_act_is_on_record_before_it_begins(
    engine: Engine, configuration: Conf, namespace: str, person: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = await kill(engine, namespace)
    before: list[Any] = []

    async def looking(letters: DeadLetters, who: str, choice: DeadChoice) -> int:
        before.extend(noted(configuration, namespace))
        return await REAL["delete"](letters, who, choice)

    monkeypatch.setattr(DeadLetters, "delete", looking)
    form = {"chosen": [f"{dead}:t"], "verb": "delete", "confirmed": "yes"}
    answer = await asyncio.to_thread(person.post, f"/admin/messages/{namespace}/dlq/act/", form)
    assert answer.status_code == 302
    assert before == [("dead.delete", {"chosen": {"t": [dead]}})]
    assert noted(configuration, namespace) == [("dead.delete", {"chosen": {"t": [dead]}, "done": 1})]
