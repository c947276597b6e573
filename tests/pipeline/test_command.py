"""`manage.py pipeline` says how it went by its exit code; the service answers over HTTP from the lake."""

import datetime
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connections
from django.utils import timezone

from mqueue.core.conf import ROOT, Conf, Lake
from pipeline import tasks
from pipeline.models import File, Replay
from pipeline.replay import Wish, begin
from pipeline.turns import turn
from pipeline.verbs import VERBS
from tests.pipeline.past import day_before, grow_older, settle_some
from tests.pipeline.test_retain import days_of
from tests.service import Service

pytestmark = [pytest.mark.pipeline, pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")]
DAYS = 12
Run = Callable[..., int]


@pytest.fixture
def run(lake: Conf, sessions: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A verb in this process, with this process's Spark; its exit code."""
    monkeypatch.setattr("pipeline.management.commands.pipeline.conf", lambda: lake)
    monkeypatch.setattr("pipeline.spark.Sessions.__exit__", lambda *_: None)
    monkeypatch.setattr("pipeline.session.SparkSession.stop", lambda *_: None)

    def run(*verb: str) -> int:
        try:
            call_command("pipeline", *verb)
        except SystemExit as ended:
            return int(str(ended.code))
        return 0

    return run


@pytest.fixture
def served(lake: Conf, tmp_path: Path) -> Iterator[Service]:
    """On the worker's own databases, with the lake."""
    folder = tmp_path / "data"
    folder.mkdir()
    names = ("DATABASE_URLS", "CONTROL_DATABASE_URL", "REDIS_URL")
    command = [sys.executable, "-m", "launch", "only", "api"]
    env = {name: os.environ[name] for name in names} | {"LAKE_URL": lake.lake.url}
    service = Service(folder, env, command).start(wait=False)
    service.until(service.is_ready, 60, "the API answers")
    yield service
    service.end()


def test_a_message_is_shown_over_http_before_and_after_its_day_has_gone(
    lake: Conf, served: Service, run: Run, namespace: str
) -> None:
    with served.client() as http:
        place = {"namespace": namespace, "topic": "t"}
        (message_id,) = http.post("/enqueue", json=place | {"body": {"n": 1}, "headers": {"a": "b"}}).json()
        (held,) = http.get("/dequeue", params=place).json()
        assert http.post("/ack", json=held).status_code == 200
        grow_older(lake, namespace, DAYS)
        paths = (f"/messages/{message_id}", f"/messages/{message_id}/trace")
        before = [http.get(path, params=place).json() for path in paths]
        assert run("archive") == 0
        assert run("archive") == 3
        assert run("retain") == 0
        assert day_before(DAYS) not in days_of(lake, "message") | days_of(lake, "event")
        answers = [http.get(path, params=place) for path in paths]
        assert [answer.json() for answer in answers] == before
        assert before[0]["state"] == "acked"
        assert [one["event"] for one in before[1]["events"]] == ["published", "delivered", "acked"]
        elsewhere = {"namespace": f"{namespace}-x", "topic": "t"}
        assert http.get(paths[0], params=elsewhere).status_code == 404
    with served.client(namespaces=["other"]) as foreign:
        assert foreign.get(paths[0], params=place).status_code == 403


def test_each_way_to_end_has_its_code(lake: Conf, run: Run, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("status") == 0
    assert run("archive") == 3
    assert run("verify") == 3
    assert run("gc") == 3
    assert run("retain") == 3
    assert run("replay") == 1
    assert run("replay", "--resume", "nobody") == 1
    with turn(lake):
        assert run("archive") == run("gc") == run("retain") == run("usage") == 4
    monkeypatch.setattr("pipeline.management.commands.pipeline.conf", lambda: replace(lake, lake=Lake("", 0)))
    assert run("status") == 1


async def test_a_damaged_lake_is_code_5(lake: Conf, run: Run, namespace: str) -> None:
    await settle_some(lake, namespace)
    grow_older(lake, namespace, DAYS)
    assert run("archive") == 0
    assert run("verify") == 0
    file = File.objects.first()
    assert file
    (Path(lake.lake.url.removeprefix("file://")) / file.path).write_bytes(b"PAR1")
    assert run("verify") == 5
    connections.close_all()  # of this test's own context: the pool has few


def test_a_dry_run_forgets_the_run_that_it_began_and_no_other(lake: Conf, run: Run, namespace: str) -> None:
    asked = ("--namespace", namespace, "--from", "2026-11-01")
    assert run("replay", *asked, "--dry-run") == 3
    assert not Replay.objects.exists()
    begun = begin(lake, Wish(namespace, None, datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC), timezone.now()))
    assert run("replay", "--resume", begun.name, "--dry-run") == 3
    assert Replay.objects.exists()


def test_a_run_that_is_resumed_keeps_its_rate_unless_another_is_asked_for(
    lake: Conf, run: Run, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    monkeypatch.setattr("pipeline.replay.replay", lambda *given, **_: rates.append(given[-1]))
    assert run("replay", "--namespace", namespace, "--from", "2026-11-01", "--rate", "7") == 0
    resumed = ("replay", "--resume", Replay.objects.get().name)
    assert run(*resumed) == run(*resumed, "--rate", "9") == run(*resumed) == 0
    assert rates == [7, 7, 9, 7]


def test_without_a_lake_the_daily_task_starts_nothing(monkeypatch: pytest.MonkeyPatch, configuration: Conf) -> None:
    monkeypatch.setattr(tasks, "conf", lambda: configuration)
    monkeypatch.setattr(tasks.subprocess, "run", lambda *_, **__: pytest.fail("it started something"))
    assert tasks.pipeline() == 0


@pytest.mark.parametrize(
    ("codes", "worst", "left_out"),
    [
        ({}, 0, set()),
        ({"archive": 3, "usage": 4}, 0, set()),
        ({"archive": 1, "compact": -9}, 1, set()),
        ({"archive": 5, "retain": 1}, 5, {"gc"}),
        ({"retain": -9}, -9, set()),
    ],
)
def test_no_verb_of_the_day_waits_for_another_but_for_gc_where_a_copy_was_wrong(
    monkeypatch: pytest.MonkeyPatch, configuration: Conf, codes: dict[str, int], worst: int, left_out: set[str]
) -> None:
    ran: list[str] = []

    def run(command: list[str], **_: object) -> "subprocess.CompletedProcess[bytes]":
        ran.append(command[-1])
        return subprocess.CompletedProcess(command, codes.get(command[-1], 0))

    monkeypatch.setattr(tasks, "conf", lambda: replace(configuration, lake=Lake("file:///lake", 0)))
    monkeypatch.setattr(tasks.subprocess, "run", run)
    assert tasks.pipeline() == worst
    assert ran == [verb for verb in tasks.DAILY if verb not in left_out]


def test_every_verb_has_help_and_is_in_the_docs() -> None:
    text = (ROOT / "docs/pipeline.md").read_text()
    for name, verb in VERBS.items():
        assert len(verb.about) > 20
        assert f"| `{name}` |" in text
    assert set(tasks.DAILY) <= VERBS.keys()
