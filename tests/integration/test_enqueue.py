"""Commits that several requests share, and what happens when one of them is bad, or its answer lost."""

import asyncio
import os
import socket
from typing import Any

import pytest

from daemons.maintenance import _forget_keys
from mqueue.core.conf import Conf
from mqueue.core.errors import ShardUnavailable
from mqueue.core.messages import Dequeue, StatsPage
from mqueue.engine import inserts
from mqueue.engine.engine import Engine
from mqueue.engine.inserts import Inserts
from mqueue.engine.keys import Keys
from shards.pools import Database
from tests.integration.messages import key_for, message, send
from tests.integration.test_engine import bodies, take


async def test_requests_that_come_together_share_commits(engine: Engine, namespace: str, monkeypatch: Any) -> None:
    await send(engine, message(namespace))
    commits: list[int] = []
    commit = Inserts._commit

    async def counted(self: Inserts, rows: list[Any]) -> Any:
        commits.append(len(rows))
        return await commit(self, rows)

    monkeypatch.setattr(Inserts, "_commit", counted)
    await asyncio.gather(*(send(engine, message(namespace)) for _ in range(200)))
    assert sum(commits) == 200
    assert len(commits) < 40


async def test_a_message_that_cannot_be_stored_spoils_no_other(engine: Engine, namespace: str) -> None:
    await send(engine, message(namespace))
    bad = message(namespace, priority=256)  # its like never passes the API
    good = [send(engine, message(namespace, body=n)) for n in range(20)]
    outcomes = await asyncio.gather(*good[:10], engine.enqueue("p", [bad]), *good[10:], return_exceptions=True)
    assert [type(outcome).__name__ for outcome in outcomes if not isinstance(outcome, list)] == ["CheckViolation"]
    assert sorted(bodies(await take(engine, namespace, limit=100))) == [0, 1, *range(1, 20)]


async def lost(engine: Engine, namespace: str, monkeypatch: Any, *, before_commit: bool) -> Any:
    """Enqueue one message over a connection that is cut just before, or just after, its commit."""
    await send(engine, message(namespace))
    shard = engine.cluster.shard_of_topic(namespace, "t")
    connection_of = Database.connection
    cut = False

    def cutting(self: Database) -> Any:
        nonlocal cut
        if cut or self is not shard:
            return connection_of(self)
        cut = True
        return Cutting(connection_of(self), before_commit=before_commit)

    monkeypatch.setattr(Database, "connection", cutting)
    return await engine.enqueue("p", [message(namespace, body="here?")])


class Cutting:
    def __init__(self, real: Any, *, before_commit: bool) -> None:
        self._real, self._before = real, before_commit

    async def __aenter__(self) -> Any:
        self._connection = await self._real.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self._real.__aexit__(*error)

    @property
    def info(self) -> Any:
        return self._connection.info

    async def execute(self, *arguments: Any) -> Any:
        if not self._before:
            await self._connection.execute(*arguments)
        with socket.socket(fileno=os.dup(self._connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
        return await self._connection.execute("SELECT 1")


async def test_a_commit_whose_answer_was_lost_is_found(engine: Engine, namespace: str, monkeypatch: Any) -> None:
    result = await lost(engine, namespace, monkeypatch, before_commit=False)
    assert (result.error, result.in_doubt) == (None, [])
    assert bodies(await take(engine, namespace, limit=5)) == [1, "here?"]


async def test_a_commit_that_never_came_is_not_called_in_doubt(
    engine: Engine, namespace: str, monkeypatch: Any
) -> None:
    result = await lost(engine, namespace, monkeypatch, before_commit=True)
    assert isinstance(result.error, ShardUnavailable)
    assert (result.ids, result.in_doubt) == ([None], [])
    assert bodies(await take(engine, namespace, limit=5)) == [1]


async def test_an_answer_stops_at_16_mib_of_payload(engine: Engine, namespace: str) -> None:
    big = "x" * (250 * 1024)
    for _ in range(4):
        await send(engine, *(message(namespace, body=big) for _ in range(25)))
    seen: list[int] = []
    for expected in (67, 33):
        found = await take(engine, namespace, limit=1000)
        assert expected - 2 <= len(found) <= expected + 2
        assert sum(len(one.body) for one in found) <= 16 * 1024 * 1024  # type: ignore[arg-type, misc]
        assert {one.attempt for one in found} == {1}
        seen += [one.id for one in found]
    assert seen == sorted(set(seen))
    assert len(seen) == 100


@pytest.mark.parametrize("crash", ["before the message", "before the confirmation"])
@pytest.mark.parametrize("topic", ["t", "elsewhere"], ids=["same topic", "another topic"])
async def test_a_key_whose_first_owner_crashed_names_one_message(
    engine: Engine, namespace: str, configuration: Conf, monkeypatch: Any, crash: str, topic: str
) -> None:
    key = key_for(namespace, beside=False)
    first = Engine(configuration)
    await first.open()
    monkeypatch.setattr(Keys, "confirm", _crash)
    with monkeypatch.context() as patch:
        if crash == "before the message":
            patch.setattr(Inserts, "add", _crash)
        with pytest.raises(RuntimeError):
            await first.enqueue("p", [message(namespace, body="first", idempotency_key=key)])
    monkeypatch.undo()
    again = await asyncio.gather(
        *(
            engine.enqueue(
                "p", [message(namespace, topic, body="second", idempotency_key=key), message(namespace, topic)]
            )
            for _ in range(5)
        )
    )
    assert len({result.ids[0] for result in again}) == 1
    assert all(result.error is None for result in again)
    await first.close()
    found = [
        one
        for name in ("t", "elsewhere")
        for one in await engine.dequeue("c", Dequeue(namespace, name, limit=100))
        if bodies([one]) != [1]
    ]
    assert [one.id for one in found] == [again[0].ids[0]]
    expected = "first" if crash == "before the confirmation" else "second"
    assert bodies(found) == [expected]
    duplicates = sum(result.duplicates for result in again)
    assert duplicates == (5 if crash == "before the confirmation" else 4)


async def _crash(*_: Any) -> None:
    raise RuntimeError("crash")


async def test_a_key_beside_its_message_is_taken_with_it(engine: Engine, namespace: str) -> None:
    key = key_for(namespace, beside=True)
    requests = [[message(namespace, body=n, idempotency_key=key), message(namespace, body=-1)] for n in range(20)]
    results = await asyncio.gather(*(engine.enqueue("p", request) for request in requests))
    assert len({result.ids[0] for result in results}) == 1
    assert sum(result.duplicates for result in results) == 19
    elsewhere = await engine.enqueue("p", [message(namespace, "elsewhere", idempotency_key=key)])
    assert (elsewhere.ids, elsewhere.there) == (results[0].ids[:1], [0])
    assert len(await take(engine, namespace, limit=100)) == 21
    async with engine.cluster.shard_of_topic(namespace, "t").connection() as connection:
        rows = await connection.execute("SELECT id, confirmed FROM idempotency WHERE namespace = %s", [namespace])
        assert await rows.fetchall() == [(results[0].ids[0], True)]
        rows = await connection.execute("SELECT FROM keyed WHERE id = %s", [results[0].ids[0]])
        assert await rows.fetchall() == []


async def test_keys_on_either_shard_leave_a_request_in_its_order(engine: Engine, namespace: str) -> None:
    await send(engine, *(message(namespace, body=n, idempotency_key=str(n)) for n in range(40)))
    assert bodies(await take(engine, namespace, limit=100)) == list(range(40))


async def test_a_fenced_message_never_comes(engine: Engine, namespace: str, monkeypatch: Any) -> None:
    """The first owner was only slow: by the time it adds its message, its key has gone to another topic."""
    key = key_for(namespace, beside=False)
    slow, go = asyncio.Event(), asyncio.Event()
    add = Inserts.add

    async def held(self: Inserts, rows: list[Any], owner: str) -> Any:
        if rows[0][inserts.KEY] == key and not slow.is_set():
            slow.set()
            await go.wait()
        return await add(self, rows, owner)

    await send(engine, message(namespace))
    monkeypatch.setattr(Inserts, "add", held)
    first = asyncio.create_task(engine.enqueue("p", [message(namespace, body="slow", idempotency_key=key)]))
    await slow.wait()
    second = await engine.enqueue("p", [message(namespace, "elsewhere", body="quick", idempotency_key=key)])
    go.set()
    result = await first
    assert result.ids == second.ids
    assert result.duplicates == 1
    stats = {one.topic: one.ready for one in await engine.look.stats(StatsPage(namespace))}
    assert stats == {"elsewhere": 1, "t": 1}


async def test_requests_that_want_the_same_keys_for_different_topics_all_end(
    engine: Engine, namespace: str, monkeypatch: Any
) -> None:
    """However slow each is: else each would take the keys of the others before they get to use them."""
    add = Inserts.add

    async def slow(self: Inserts, rows: list[Any], owner: str) -> Any:
        await asyncio.sleep(0.03)
        return await add(self, rows, owner)

    monkeypatch.setattr(Inserts, "add", slow)
    requests = [
        [message(namespace, f"t{(n + k) % 6}", idempotency_key=f"k{(n * 7 + k) % 20}") for k in range(20)]
        for n in range(12)
    ]
    results = await asyncio.gather(*(engine.enqueue("p", request) for request in requests))
    assert [result.error for result in results] == [None] * len(results)
    found = [
        dict(zip((m.idempotency_key for m in r), x.ids, strict=True)) for r, x in zip(requests, results, strict=True)
    ]
    assert found == [found[0]] * len(found)
    assert sum(result.duplicates for result in results) == 11 * 20


async def test_a_key_may_be_used_again_after_its_window(engine: Engine, namespace: str, shard_0: Any) -> None:
    first = await send(engine, message(namespace, idempotency_key="k"))
    for shard in engine.cluster.shards:
        async with shard.connection() as connection:
            await connection.execute(
                "UPDATE idempotency SET at = at - interval '25 hours' WHERE namespace = %s", [namespace]
            )
    assert await send(engine, message(namespace, idempotency_key="k")) != first


async def test_keys_are_forgotten_a_day_after_their_window(engine: Engine, namespace: str) -> None:
    key = key_for(namespace, beside=False)  # so that its message has a row in `keyed`
    (old,) = await send(engine, message(namespace, idempotency_key=key))
    (new,) = await send(engine, message(namespace, idempotency_key="new"))
    for shard in engine.cluster.shards:
        async with shard.connection() as connection:
            await connection.execute(
                "UPDATE idempotency SET at = at - interval '49 hours' WHERE namespace = %s AND key = %s",
                [namespace, key],
            )
            await connection.execute("UPDATE keyed SET at = at - interval '49 hours' WHERE id = %s", [old])
    assert await _forget_keys() == 2
    assert await _forget_keys() == 0
    assert await send(engine, message(namespace, idempotency_key="new")) == [new]
    assert await send(engine, message(namespace, idempotency_key=key)) != [old]
