"""A namespace leaves the lake and the roll-ups, for good, and nobody else loses anything."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from django.db import connections
from django.utils import timezone

from mqueue.core.conf import Conf, Lake
from mqueue.core.errors import NotFound
from mqueue.core.messages import Place
from mqueue.engine.engine import Engine
from pipeline.archive import archive
from pipeline.compact import compact
from pipeline.erase import erase
from pipeline.errors import Busy, NothingToDo, PipelineError
from pipeline.failures import failures
from pipeline.gc import gc
from pipeline.models import Failure, File, Part, Partition, Replay, UsageHour
from pipeline.retain import retain
from pipeline.spark import Sessions
from pipeline.storage import Storage
from pipeline.usage import usage
from pipeline.verify import verify
from tests.pipeline.past import day_before, grow_older, of_every_kind, settle_all, settle_some
from tests.pipeline.test_compact import on_disk, rows_of_lake
from tests.pipeline.test_rollups import a_day, rows_of_files

pytestmark = [pytest.mark.pipeline, pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")]
DAYS = 12


@pytest.fixture
async def past(lake: Conf, namespace: str, sessions: Sessions, said: list[str]) -> AsyncIterator[str]:
    """Two tenants with the same days, counted, in the lake and nowhere else; `kept` is the other's name."""
    for one in (namespace, kept(namespace)):
        await a_day(lake, one, 10)
        await settle_some(lake, one)
        await settle_all(lake, one)
        grow_older(lake, one, DAYS)
    usage(lake, sessions, said.append)
    failures(lake, sessions, said.append)
    archive(lake, sessions, said.append)
    retain(lake, said.append)
    yield namespace
    connections.close_all()  # of this test's own context: the pool has few


def kept(namespace: str) -> str:
    return f"{namespace[:-4]}kept"


def names_on_disk(conf: Conf, namespace: str) -> list[str]:
    """Files with rows of it, listed or not."""
    storage = Storage(conf.lake.url)
    rows = {path: storage.read(path).to_pylist() for path in on_disk(conf)}
    return [path for path, found in rows.items() if any(row.get("namespace") == namespace for row in found)]


async def test_a_namespace_is_erased_and_the_others_keep_all(
    lake: Conf, past: str, sessions: Sessions, said: list[str]
) -> None:
    other = kept(past)
    before, hours = rows_of_lake(lake, other), UsageHour.objects.filter(namespace=other).count()
    with pytest.raises(PipelineError, match="--yes"):
        erase(lake, sessions, past, said.append, sure=False, at_once=True)
    assert rows_of_lake(lake, past)
    erase(lake, sessions, past, said.append, sure=True, at_once=False)
    assert not rows_of_lake(lake, past)
    assert names_on_disk(lake, past)  # until the grace is over
    gc(lake, said.append)
    assert not names_on_disk(lake, past)
    assert rows_of_lake(lake, other) == before
    for kind in (UsageHour, Failure, Part):
        assert not kind.objects.filter(namespace=past).exists()
        assert kind.objects.filter(namespace=other).exists()
    assert rows_of_files(lake, "usage", other) == hours > 0
    assert sum(one.rows or 0 for one in Partition.objects.all()) == len(before)
    verify(lake, sessions, said.append)
    with pytest.raises(NothingToDo):
        erase(lake, sessions, past, said.append, sure=True, at_once=True)


async def test_at_once_means_that_no_byte_of_it_is_left(
    lake: Conf, past: str, sessions: Sessions, said: list[str]
) -> None:
    slow = replace(lake, lake=Lake(lake.lake.url, 24))
    erase(slow, sessions, past, said.append, sure=True, at_once=False)
    with pytest.raises(NothingToDo):  # the grace is not over
        gc(slow, said.append)
    erase(slow, sessions, past, said.append, sure=True, at_once=True)
    assert not names_on_disk(lake, past)
    assert names_on_disk(lake, kept(past))
    assert not File.objects.exclude(retired_at=None).exists()


async def test_what_a_replay_reads_is_not_erased(lake: Conf, past: str, sessions: Sessions, said: list[str]) -> None:
    days = [day_before(DAYS - n) for n in range(91)]
    run = Replay.objects.create(name="r", wish={"namespace": kept(past)}, horizons=[], days=days)
    with pytest.raises(Busy, match=f"Replay r of {kept(past)}"):
        erase(lake, sessions, past, said.append, sure=True, at_once=True)
    assert rows_of_lake(lake, past)
    Replay.objects.filter(pk=run.pk).update(
        touched_at=timezone.now() - timedelta(days=3)
    )  # nobody can resume it any more
    erase(lake, sessions, past, said.append, sure=True, at_once=True)
    assert not names_on_disk(lake, past)


async def test_rows_that_are_still_on_a_shard_are_told(
    lake: Conf, past: str, sessions: Sessions, said: list[str]
) -> None:
    erase(lake, sessions, past, said.append, sure=True, at_once=True)
    dead = [line for line in said if "dead letters of it" in line]
    assert dead  # a dead letter owns a copy
    assert not any("still has rows of it" in line for line in said)
    await settle_some(lake, past)
    grow_older(lake, past, DAYS - 3)
    archive(lake, sessions, said.append)
    said.clear()
    erase(lake, sessions, past, said.append, sure=True, at_once=True)
    assert any(f"the last of {day_before(DAYS - 3)}" in line for line in said)


async def test_looks_answer_as_before_but_for_what_was_erased(
    lake: Conf, namespace: str, sessions: Sessions, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.archive.CHUNK_BYTES", 4_000)
    ids = {}
    for one in (namespace, kept(namespace)):
        ids[one] = await settle_some(lake, one)
        await settle_all(lake, one)
        grow_older(lake, one, DAYS)
    archive(lake, sessions, said.append)
    retain(lake, said.append)
    engine = Engine(lake)
    await engine.open()

    async def answers(whose: str) -> list[bytes]:
        places = [Place(whose, one.topic) for one in of_every_kind(whose)]
        found = []
        for message_id, place in zip(ids[whose], places, strict=True):
            found += [await engine.look.message(message_id, place), await engine.look.trace(message_id, place)]
        return [msgspec.json.encode(one) for one in found]

    try:
        before = {whose: await answers(whose) for whose in ids}
        compact(lake, sessions, said.append)
        assert {whose: await answers(whose) for whose in ids} == before
        gc(lake, said.append)
        assert {whose: await answers(whose) for whose in ids} == before
        erase(lake, sessions, namespace, said.append, sure=True, at_once=True)
        assert await answers(kept(namespace)) == before[kept(namespace)]
        for message_id, one in zip(ids[namespace], of_every_kind(namespace), strict=True):
            with pytest.raises(NotFound):
                await engine.look.message(message_id, Place(namespace, one.topic))
    finally:
        await engine.close()
    connections.close_all()  # of this test's own context: the pool has few
