"""Jobs, slice by slice: whoever works on one, each message is done once and counted once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from daemons import jobs as runner
from daemons.job_work import Worker
from mqueue.core.conf import Conf
from mqueue.core.messages import Dequeue, Nack, StatsPage
from mqueue.engine.engine import Engine
from tenants import job_steps
from tests.integration.messages import message, send


@pytest.fixture
def control(configuration: Conf) -> Any:
    with psycopg.connect(configuration.control_url, autocommit=True) as connection:
        connection.execute("DELETE FROM job")
        yield connection
        connection.execute("DELETE FROM job")


@pytest.fixture
async def worker(engine: Engine) -> AsyncIterator[Worker]:
    yield Worker(engine.cluster, engine.settings, engine.hot)


async def dead(engine: Engine, namespace: str, count: int, topic: str = "t") -> list[int]:
    ids = await send(engine, *(message(namespace, topic) for _ in range(count)))
    for _ in range(0, count, 1000):
        found = await engine.dequeue("c", Dequeue(namespace, topic, limit=1000))
        await engine.nack("c", [Nack(one.id, namespace, topic, one.receipt, error="boom", dead=True) for one in found])
    return ids


def make(control: Any, namespace: str, kind: str, **fields: Any) -> int:
    fields = {"filter": Jsonb(fields.pop("filter", {}))} | fields
    names = ", ".join(fields)
    values = ", ".join(f"%({name})s" for name in fields)
    row = control.execute(
        "INSERT INTO job (namespace_id, kind, created_by, via, state, topic, with_dead, is_dry_run, searched, matched, "
        f"done, cursor, error, term, {names}) SELECT id, %(kind)s, 'ada', 'session', 'queued', %(of)s, false, "
        f"%(dry)s, 0, 0, 0, '', '', 0, {values} FROM namespace WHERE name = %(namespace)s RETURNING id",
        fields | {"kind": kind, "namespace": namespace, "of": "t" if kind == "purge" else "", "dry": False},
    ).fetchone()
    return int(row[0])


def row_of(control: Any, job: int) -> dict[str, Any]:
    with control.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        found: dict[str, Any] = cursor.execute("SELECT * FROM job WHERE id = %s", [job]).fetchone()
        return found


async def slice_(engine: Engine, worker: Worker, seconds: float = 20.0) -> int:
    return await runner.run_slice(engine.cluster.control, worker, seconds)


async def counts(engine: Engine, namespace: str) -> tuple[int, int, int]:
    found = await engine.look.stats(StatsPage(namespace))
    return sum(one.ready + one.scheduled for one in found), sum(one.leased for one in found), sum(o.dead for o in found)


async def test_a_replay_lets_each_live_again_and_says_whose_it_was(
    engine: Engine, namespace: str, worker: Worker, control: Any
) -> None:
    ids = await dead(engine, namespace, 1200) + await dead(engine, namespace, 30, "u")
    job = make(control, namespace, "replay")
    assert await slice_(engine, worker) == 1
    done = row_of(control, job)
    assert (done["state"], done["total"], done["matched"], done["done"]) == ("done", 1230, 1230, 1230)
    assert done["searched"] == 1230
    assert done["finished_at"] >= done["started_at"]
    assert await counts(engine, namespace) == (1230, 0, 0)
    trace = await engine.look.trace(ids[0], runner_place(namespace))
    assert (trace[-1].event, trace[-1].consumer, trace[-1].detail) == ("replayed", "ada", f"job {job}")
    assert await slice_(engine, worker) == 0  # over is over


def runner_place(namespace: str) -> Any:
    from mqueue.core.messages import Place

    return Place(namespace, "t")


async def test_a_delete_takes_what_fits_alone(engine: Engine, namespace: str, worker: Worker, control: Any) -> None:
    await dead(engine, namespace, 20)
    await dead(engine, namespace, 5, "u")
    job = make(control, namespace, "delete", filter={"topic": "u", "error": "BOOM"})
    await slice_(engine, worker)
    assert row_of(control, job)["done"] == 5
    assert await counts(engine, namespace) == (0, 0, 20)


async def test_one_that_died_in_the_middle_of_a_portion_is_finished_and_counted_exactly(
    engine: Engine, namespace: str, worker: Worker, control: Any
) -> None:
    """Announced, and a part of it done: then its worker was killed, and somebody else goes on."""
    await dead(engine, namespace, 700)
    job = make(control, namespace, "replay")
    async with engine.cluster.control.connection() as connection:
        (held,) = await job_steps.claim(connection, 8)
        portion = await worker.find(held, 500)
        assert await job_steps.announce(connection, held, portion)
        half = portion.batches["t"][:200]
        await worker.act(held, job_steps.Portion("replay", {"t": half}, portion.by, "", False, 0))
    assert await slice_(engine, worker) == 0  # it is held
    control.execute("UPDATE job SET held_until = now() - interval '1 second'")
    assert await slice_(engine, worker) == 1
    found = row_of(control, job)
    assert (found["state"], found["matched"], found["done"], found["term"]) == ("done", 700, 700, 2)
    assert await counts(engine, namespace) == (700, 0, 0)


async def test_who_was_stopped_and_wakes_later_changes_nothing(
    engine: Engine, namespace: str, worker: Worker, control: Any
) -> None:
    await dead(engine, namespace, 10)
    job = make(control, namespace, "replay")
    async with engine.cluster.control.connection() as connection:
        (stopped,) = await job_steps.claim(connection, 8)
        portion = await worker.find(stopped, 500)
        control.execute("UPDATE job SET held_until = now() - interval '1 second'")
        assert await slice_(engine, worker) == 1
        assert not await job_steps.announce(connection, stopped, portion)
        assert not await job_steps.advance(connection, stopped, portion, done=10, is_over=True)
        await job_steps.fail(connection, stopped, "x")
    assert (row_of(control, job)["done"], row_of(control, job)["state"]) == (10, "done")
    found = await engine.dequeue("c", Dequeue(namespace, "t", limit=10))
    await engine.nack("c", [Nack(one.id, namespace, "t", one.receipt, dead=True) for one in found])
    assert await worker.act(stopped, portion) == 0  # they died again since it looked
    assert await counts(engine, namespace) == (0, 0, 10)


async def test_two_at_once_do_each_message_once(engine: Engine, namespace: str, worker: Worker, control: Any) -> None:
    await dead(engine, namespace, 600)
    jobs = [make(control, namespace, "replay") for _ in range(4)]
    await asyncio.gather(*(slice_(engine, worker) for _ in range(4)))
    assert sum(row_of(control, job)["done"] for job in jobs) == 600
    assert {row_of(control, job)["state"] for job in jobs} == {"done"}
    assert await counts(engine, namespace) == (600, 0, 0)


async def test_a_dry_run_counts_and_changes_nothing(
    engine: Engine, namespace: str, worker: Worker, control: Any
) -> None:
    await dead(engine, namespace, 12)
    job = make(control, namespace, "delete", filter={"error": "boom"}, rate_per_s=1)
    control.execute("UPDATE job SET is_dry_run = true")
    await slice_(engine, worker, 5)
    found = row_of(control, job)
    assert (found["state"], found["matched"], found["done"]) == ("done", 12, 0)
    assert await counts(engine, namespace) == (0, 0, 12)


async def test_at_most_so_many_in_all(engine: Engine, namespace: str, worker: Worker, control: Any) -> None:
    await dead(engine, namespace, 20)
    job = make(control, namespace, "replay", most=7)
    await slice_(engine, worker)
    found = row_of(control, job)
    assert (found["state"], found["matched"], found["done"]) == ("done", 7, 7)
    assert await counts(engine, namespace) == (7, 0, 13)


async def test_a_rate_is_kept_and_a_slice_ends(engine: Engine, namespace: str, worker: Worker, control: Any) -> None:
    await dead(engine, namespace, 100)
    job = make(control, namespace, "replay", rate_per_s=10)
    began = asyncio.get_running_loop().time()
    await slice_(engine, worker, 2.5)
    took = asyncio.get_running_loop().time() - began
    found = row_of(control, job)
    assert found["state"] == "running"
    assert 10 <= found["done"] <= 10 * (took + 1)
    assert took < 5
    control.execute("UPDATE job SET state = 'cancelled'")
    assert await slice_(engine, worker) == 0


async def test_one_that_is_cancelled_meanwhile_stops_and_counts_what_it_did(
    engine: Engine, namespace: str, worker: Worker, control: Any
) -> None:
    await dead(engine, namespace, 40)
    job = make(control, namespace, "replay", rate_per_s=10)
    working = asyncio.create_task(slice_(engine, worker, 20))
    while not row_of(control, job)["done"]:
        await asyncio.sleep(0.01)
    control.execute("UPDATE job SET state = 'cancelled'")
    await working
    found = row_of(control, job)
    waiting, _, left = await counts(engine, namespace)
    assert found["state"] == "cancelled"
    assert found["done"] == waiting == 40 - left < 40


async def test_what_dies_again_is_not_replayed_twice(
    engine: Engine, namespace: str, worker: Worker, control: Any
) -> None:
    await dead(engine, namespace, 30)
    job = make(control, namespace, "replay", rate_per_s=10)
    working = asyncio.create_task(slice_(engine, worker, 20))
    while not working.done():
        for one in await engine.dequeue("c", Dequeue(namespace, "t", limit=100)):
            await engine.nack("c", [Nack(one.id, namespace, "t", one.receipt, error="again", dead=True)])
        await asyncio.sleep(0.02)
    assert row_of(control, job)["done"] == 30
    for one in await engine.dequeue("c", Dequeue(namespace, "t", limit=100)):
        await engine.nack("c", [Nack(one.id, namespace, "t", one.receipt, dead=True)])
    assert await counts(engine, namespace) == (0, 0, 30)


async def test_a_purge_takes_what_waits_and_nothing_else(
    engine: Engine, namespace: str, worker: Worker, control: Any
) -> None:
    await dead(engine, namespace, 3)
    await send(engine, *(message(namespace, priority=n % 7) for n in range(1100)))
    await send(engine, *(message(namespace, delay_ms=3_600_000) for _ in range(40)), message(namespace, "other"))
    held = await engine.dequeue("c", Dequeue(namespace, "t", limit=5))
    (retrying,) = await engine.dequeue("c", Dequeue(namespace, "t"))
    await engine.nack("c", [Nack(retrying.id, namespace, "t", retrying.receipt)])
    job = make(control, namespace, "purge")
    await slice_(engine, worker)
    found = row_of(control, job)
    assert (found["state"], found["total"], found["done"]) == ("done", 1135, 1135)
    assert await counts(engine, namespace) == (1, 5, 3)
    trace = await engine.look.trace(retrying.id, runner_place(namespace))
    assert (trace[-1].event, trace[-1].detail) == ("cancelled", f"job {job}")
    assert len(held) == 5
    again = make(control, namespace, "purge")
    control.execute("UPDATE job SET with_dead = true WHERE id = %s", [again])
    await slice_(engine, worker)
    assert row_of(control, again)["done"] == 3
    assert await counts(engine, namespace) == (1, 5, 0)


async def test_a_purge_leaves_what_came_after_it_began_and_ends(
    engine: Engine, namespace: str, worker: Worker, control: Any
) -> None:
    await send(engine, *(message(namespace) for _ in range(60)))
    job = make(control, namespace, "purge", rate_per_s=30)
    working = asyncio.create_task(slice_(engine, worker, 20))
    while not row_of(control, job)["done"]:
        await asyncio.sleep(0.01)
    late = await send(engine, *(message(namespace) for _ in range(50)))
    await working
    assert row_of(control, job)["done"] == 60
    found = await engine.dequeue("c", Dequeue(namespace, "t", limit=100))
    assert sorted(one.id for one in found) == sorted(late)
