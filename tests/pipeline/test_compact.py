"""A day's files become fewer, with the same rows; what is past the lake's retention is left out."""

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connections

from mqueue.core.conf import Conf, Lake
from pipeline.archive import archive
from pipeline.compact import compact
from pipeline.errors import Fenced, NothingToDo, VerificationFailed
from pipeline.gc import gc
from pipeline.layout import LAYOUTS
from pipeline.manifest import swap, take_up
from pipeline.models import File, Part, Partition, Replay
from pipeline.retain import retain
from pipeline.rollup import touched
from pipeline.spark import Sessions
from pipeline.verify import verify
from tests.pipeline.past import day_before, grow_older, settle_all, settle_some
from tests.pipeline.test_archive import in_the_lake, order

pytestmark = [pytest.mark.pipeline, pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")]
DAYS = 12
SMALL = 4_000  # bytes of rows: a few files a partition


@pytest.fixture
async def past(
    lake: Conf, namespace: str, sessions: Sessions, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    """A namespace whose messages are in the lake, in many files."""
    await settle_some(lake, namespace)
    await settle_all(lake, namespace)
    grow_older(lake, namespace, DAYS)
    monkeypatch.setattr("pipeline.archive.CHUNK_BYTES", SMALL)
    archive(lake, sessions, said.append)
    yield namespace
    connections.close_all()  # of this test's own context: the pool has few


def rows_of_lake(conf: Conf, namespace: str) -> list[dict[str, Any]]:
    return [row for parent in LAYOUTS for row in sorted(in_the_lake(conf, parent, namespace), key=order)]


def in_use() -> dict[int, list[File]]:
    files: dict[int, list[File]] = {}
    for file in File.objects.filter(retired_at=None):
        files.setdefault(file.partition_id, []).append(file)
    return files


def on_disk(conf: Conf) -> set[str]:
    root = Path(conf.lake.url.removeprefix("file://"))
    return {str(path.relative_to(root)) for path in root.rglob("*.parquet")}


async def test_many_files_become_one_with_the_same_rows(
    lake: Conf, past: str, sessions: Sessions, said: list[str]
) -> None:
    before, many = rows_of_lake(lake, past), in_use()
    assert max(map(len, many.values())) > 2
    compact(lake, sessions, said.append)
    assert rows_of_lake(lake, past) == before
    assert [len(files) for files in in_use().values()] == [1] * len(many)
    assert {file.path for files in many.values() for file in files} <= on_disk(lake)  # somebody may be reading them
    verify(lake, sessions, said.append)
    with pytest.raises(NothingToDo):
        compact(lake, sessions, said.append)
    gc(lake, said.append)
    assert on_disk(lake) == set(File.objects.values_list("path", flat=True))
    verify(lake, sessions, said.append)


async def test_each_file_has_topics_of_its_own_and_is_merged_once(
    lake: Conf, past: str, sessions: Sessions, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.compact.FILE_BYTES", 2 * SMALL)
    before = rows_of_lake(lake, past)
    compact(lake, sessions, said.append)
    assert rows_of_lake(lake, past) == before
    assert max(map(len, in_use().values())) > 1
    for files in in_use().values():
        ranges = sorted(
            (min(names), max(names))
            for file in files
            if (names := list(Part.objects.filter(file=file).values_list("namespace", "name")))
        )
        assert all(last <= first for (_, last), (first, _) in pairwise(ranges))
    with pytest.raises(NothingToDo):
        compact(lake, sessions, said.append)


async def test_files_that_do_not_hold_what_they_have_to_are_left_as_they_are(
    lake: Conf, past: str, sessions: Sessions, said: list[str]
) -> None:
    files = next(files for files in in_use().values() if len(files) > 1)
    root = Path(lake.lake.url.removeprefix("file://"))
    (root / files[0].path).write_bytes((root / files[1].path).read_bytes())
    with pytest.raises(VerificationFailed):
        compact(lake, sessions, said.append)
    assert {file.pk for file in files} <= set(File.objects.filter(retired_at=None).values_list("pk", flat=True))


async def test_one_who_slept_through_his_turn_changes_nothing(lake: Conf, past: str) -> None:
    files = next(iter(in_use().values()))
    partition = files[0].partition
    take_up(Partition.objects.get(pk=partition.pk))  # the next one's turn
    with pytest.raises(Fenced):
        swap(partition, files, [])
    partition.refresh_from_db()
    File.objects.filter(pk=files[0].pk).update(retired_at="2026-01-01T00:00Z")
    with pytest.raises(Fenced):
        swap(partition, files, [])
    assert File.objects.filter(partition=partition, retired_at=None).count() == len(files) - 1


@pytest.fixture
def short(lake: Conf, past: str, said: list[str]) -> Conf:
    """A lake that keeps less than the days of the past, which have left their shards."""
    retain(lake, said.append)
    return replace(lake, lake=Lake(lake.lake.url, 0, DAYS - 2))


async def test_what_is_past_its_time_in_the_lake_goes(short: Conf, lake: Conf, said: list[str]) -> None:
    with pytest.raises(NothingToDo):  # for ever, where nothing is set
        retain(lake, said.append)
    pin = Replay.objects.create(name="r", wish={}, horizons=[], days=[day_before(DAYS), day_before(DAYS - 1)])
    with pytest.raises(NothingToDo):
        retain(short, said.append)
    pin.delete()
    retain(short, said.append)
    assert not in_use()
    gc(short, said.append)
    assert not on_disk(short)
    _, days = touched(short, "usage")
    assert day_before(DAYS) not in days  # or its usage would be counted away


async def test_a_topic_that_is_kept_for_longer_is_all_that_is_kept(
    short: Conf, lake: Conf, past: str, sessions: Sessions, said: list[str]
) -> None:
    keep_for(lake, past, "odd", 400)
    before = rows_of_lake(lake, past)
    retain_quietly(short, said)
    compact(short, sessions, said.append)
    assert rows_of_lake(short, past) == [row for row in before if row["topic"] == "odd"] != []
    verify(short, sessions, said.append)
    with pytest.raises(NothingToDo):
        compact(short, sessions, said.append)


def keep_for(conf: Conf, namespace: str, topic: str, days: int) -> None:
    with psycopg.connect(conf.control_url) as connection:
        connection.execute(
            "INSERT INTO topic_settings (topic_id, retention_days, paused) SELECT t.id, %s, false FROM topic t "
            "JOIN namespace n ON n.id = t.namespace_id WHERE n.name = %s AND t.name = %s "
            "ON CONFLICT (topic_id) DO UPDATE SET retention_days = excluded.retention_days",
            [days, namespace, topic],
        )


def retain_quietly(conf: Conf, said: list[str]) -> None:
    """Some files may have nothing of the topic."""
    try:
        retain(conf, said.append)
    except NothingToDo:
        said.append("nothing to retire")
