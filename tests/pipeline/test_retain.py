"""Days leave their shard when they are in the lake, old enough, and nobody needs them there; looks go on answering."""

import contextlib
from dataclasses import replace

import msgspec
import psycopg
import pytest
from django.db import connections

from mqueue.core.conf import Conf, Lake
from mqueue.core.errors import NotFound
from mqueue.core.messages import Place
from mqueue.engine.engine import Engine
from pipeline.archive import archive
from pipeline.errors import Busy, NothingToDo, PipelineError
from pipeline.manifest import State
from pipeline.models import Partition, Replay
from pipeline.retain import retain
from pipeline.spark import Sessions
from tests.pipeline.past import day_before, grow_older, of_every_kind, settle_all, settle_some

pytestmark = [pytest.mark.pipeline, pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")]
DAYS = 12


def days_of(conf: Conf, parent: str) -> set[object]:
    found: set[object] = set()
    for url in conf.shard_urls:
        with psycopg.connect(url) as connection:
            rows = connection.execute("SELECT day FROM log_partitions() WHERE parent = %s", [parent])
            found |= {row[0] for row in rows.fetchall()}
    return found


async def archive_all(lake: Conf, namespace: str, sessions: Sessions, said: list[str]) -> None:
    """A day of which nothing is live any more."""
    await settle_some(lake, namespace)
    await settle_all(lake, namespace)
    grow_older(lake, namespace, DAYS)
    archive(lake, sessions, said.append)


async def test_looks_and_traces_answer_the_same_when_the_day_has_gone(
    lake: Conf, namespace: str, sessions: Sessions, said: list[str]
) -> None:
    ids = await settle_some(lake, namespace)
    await settle_all(lake, namespace)
    grow_older(lake, namespace, DAYS)
    places = [Place(namespace, one.topic) for one in of_every_kind(namespace)]
    engine = Engine(lake)
    await engine.open()

    async def answers() -> list[bytes]:
        found = []
        for message_id, place in zip(ids, places, strict=True):
            found += [await engine.look.message(message_id, place), await engine.look.trace(message_id, place)]
        return [msgspec.json.encode(one) for one in found]

    try:
        before = await answers()
        archive(lake, sessions, said.append)
        assert await answers() == before
        retain(lake, said.append)
        assert day_before(DAYS) not in days_of(lake, "message") | days_of(lake, "event")
        assert await answers() == before
        with pytest.raises(NotFound):
            await engine.look.message(ids[0], Place(namespace, "odd"))
        with pytest.raises(NotFound):
            await engine.look.trace(ids[0] + (1 << 30), places[0])
    finally:
        await engine.close()
    assert set(Partition.objects.values_list("state", flat=True)) == {State.DROPPED}
    connections.close_all()  # of this test's own context: the pool has few


async def test_a_shard_that_is_down_keeps_no_days_on_the_others(
    lake: Conf, namespace: str, sessions: Sessions, said: list[str]
) -> None:
    await archive_all(lake, namespace, sessions, said)
    alone = replace(lake, shard_urls=("postgresql://mqueue@127.0.0.1:1/nowhere", *lake.shard_urls[1:]))
    with pytest.raises(PipelineError, match="shard 0"):
        retain(alone, said.append)
    assert set(Partition.objects.values_list("shard", "state")) == {(0, State.PUBLISHED), (1, State.DROPPED)}
    retain(lake, said.append)
    assert set(Partition.objects.values_list("state", flat=True)) == {State.DROPPED}
    connections.close_all()  # of this test's own context: the pool has few


async def test_what_is_in_use_stays_and_the_exit_code_says_so(
    lake: Conf, namespace: str, sessions: Sessions, said: list[str]
) -> None:
    await archive_all(lake, namespace, sessions, said)
    with contextlib.ExitStack() as readers:
        for url in lake.shard_urls:
            reader = readers.enter_context(psycopg.connect(url))
            for table in reader.execute("SELECT parent || to_char(day, '_YYYYMMDD') FROM log_partitions()").fetchall():
                reader.execute(f"SELECT count(*) FROM {table[0]}")  # type: ignore[arg-type]
        with pytest.raises(Busy):
            retain(lake, said.append)
        assert any("cannot be dropped now" in line for line in said)
    retain(lake, said.append)
    assert set(Partition.objects.values_list("state", flat=True)) == {State.DROPPED}
    connections.close_all()  # of this test's own context: the pool has few


async def test_a_day_with_live_deliveries_is_archived_and_stays(
    lake: Conf, namespace: str, sessions: Sessions, said: list[str]
) -> None:
    await settle_some(lake, namespace)  # `odd` and `keyed` still wait
    grow_older(lake, namespace, DAYS)
    archive(lake, sessions, said.append)
    retain(lake, said.append)
    assert day_before(DAYS) in days_of(lake, "message")
    await settle_all(lake, namespace)
    retain(lake, said.append)
    assert day_before(DAYS) not in days_of(lake, "message")
    connections.close_all()  # of this test's own context: the pool has few


async def test_a_day_stays_for_the_grace_and_while_a_replay_reads_it(
    lake: Conf, namespace: str, sessions: Sessions, said: list[str]
) -> None:
    await settle_some(lake, namespace)
    await settle_all(lake, namespace)
    grow_older(lake, namespace, DAYS)
    with pytest.raises(NothingToDo):  # not in the lake yet
        retain(lake, said.append)
    archive(lake, sessions, said.append)
    with pytest.raises(NothingToDo):
        retain(replace(lake, lake=Lake(lake.lake.url, 1)), said.append)
    pin = Replay.objects.create(name="r", wish={}, horizons=[], days=[day_before(DAYS), day_before(DAYS - 1)])
    with pytest.raises(NothingToDo):
        retain(lake, said.append)
    pin.delete()
    retain(lake, said.append)
    assert day_before(DAYS) not in days_of(lake, "message")
    connections.close_all()  # of this test's own context: the pool has few
