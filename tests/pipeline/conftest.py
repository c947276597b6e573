"""One Spark session a test process; the databases are the worker's own, and each test leaves no past behind."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_django.plugin import DjangoDbBlocker

from mqueue.core.conf import Conf, Lake
from tests.pipeline.past import drop_partitions, grow_older, settle_some
from tests.pipeline.runs import Runs


@pytest.fixture(scope="session")
def sessions() -> Iterator[object]:
    from pipeline.spark import Sessions

    with Sessions("tests") as sessions:
        yield sessions


@pytest.fixture
def lake(
    configuration: Conf, tmp_path: Path, django_db_blocker: DjangoDbBlocker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Conf]:
    """The configuration with an empty lake and without grace, and Django's connections open."""
    from pipeline.models import Failure, File, Partition, Replay, RolledUp, Table, UsageHour

    def forget() -> None:
        for kind in (Replay, File, Partition, UsageHour, Failure, RolledUp, Table):
            kind.objects.all().delete()
        drop_partitions(configuration)

    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # a test's own event loop waits for nobody else

    with django_db_blocker.unblock():
        forget()
        yield replace(configuration, lake=Lake((tmp_path / "lake").as_uri(), 0))
        forget()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
async def runs(fresh_databases: str, folder: Path) -> Runs:
    """On databases of its own, with what `acme` did nine days ago."""
    runs = Runs(fresh_databases, folder)
    await settle_some(runs.conf, "acme")
    grow_older(runs.conf, "acme", 9)
    return runs
