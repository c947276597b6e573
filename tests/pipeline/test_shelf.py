"""The shelf of a replay whose tasks are on other machines stands in the lake, and leaves nothing there."""

import datetime
from dataclasses import replace

import pyarrow as pa
import pytest

from mqueue.core.conf import Conf
from pipeline.errors import NothingToDo, PipelineError
from pipeline.gc import gc
from pipeline.models import Replay
from pipeline.shelving import shelf
from pipeline.spark import Sessions
from pipeline.storage import Storage
from shards.models import Deployment

pytestmark = pytest.mark.pipeline
ELSEWHERE = Sessions("mqueue replay", master="spark://elsewhere:7077")  # never begun
RUN = "0123456789ab"


def test_tables_come_back_as_they_were_laid(lake: Conf) -> None:
    tables = [pa.table({"n": [1, 2]}), pa.table({"n": [3]})]
    with shelf(lake, ELSEWHERE, RUN) as found:
        assert found.url == lake.lake.url
        path = found.lay(tables)
        assert [found.get(path, number) for number in (1, 0)] == tables[::-1]
        found.drop(path)
        assert not Storage(lake.lake.url).exists(path)
        left = found.lay(tables)
    assert not Storage(lake.lake.url).exists(left)


def test_what_a_killed_run_left_is_cleared_by_the_next_or_by_gc(lake: Conf, said: list[str]) -> None:
    storage = Storage(lake.lake.url)
    left = f"{Deployment.objects.get().identity}/shelf/{RUN}/{'0' * 32}.arrow"
    storage.write_batches(left, [pa.table({"n": [1]})])
    run = Replay.objects.create(name=RUN, wish={}, days=[datetime.date(2026, 1, 1)], horizons=[1])
    with pytest.raises(NothingToDo):
        gc(lake, said.append)
    assert storage.exists(left)  # it may be resumed any moment
    run.delete()
    gc(lake, said.append)
    assert not storage.exists(left)
    storage.write_batches(left, [pa.table({"n": [1]})])
    with shelf(lake, ELSEWHERE, RUN):
        assert not storage.exists(left)


def test_without_a_lake_other_machines_have_nowhere_to_lay_it(lake: Conf) -> None:
    with (
        pytest.raises(PipelineError, match="LAKE_URL"),
        shelf(replace(lake, lake=replace(lake.lake, url="")), ELSEWHERE, RUN),
    ):
        pass
