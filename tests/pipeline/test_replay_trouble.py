"""What happens to a replay under way: slots move, a shard goes away for a moment, somebody ends it."""

import datetime
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import psycopg
import pytest
from pyspark.errors import PySparkException

from daemons.management.commands.reshard import wipe_sets
from mqueue.core.conf import ROOT, Conf
from pipeline import log, patience, replay
from pipeline.door import Door
from pipeline.errors import TaskFailed
from pipeline.log import horizons_since, map_version
from pipeline.patience import Patience
from pipeline.replay import begin
from pipeline.spark import Sessions
from pipeline.waves import Place, spans
from shards.models import SlotMap, SlotMove
from shards.resharding import mover
from shards.retention import connected
from shards.routing import slot_of
from tests.pipeline.past import wait_until_complete
from tests.pipeline.test_replay import LONG_AGO, bodies_in, door, send, served, wish
from tests.service import SECRET, Service

__all__ = ["door", "served"]  # fixtures
pytestmark = [pytest.mark.pipeline, pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")]
SECONDS = 300  # messages of the log, one each
Between = Callable[[int], None]


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Between], None]:
    """Have something done before each span of the log, which is cut into many pieces and short spans."""
    monkeypatch.setattr(log, "PIECE_BYTES", 8_000)
    monkeypatch.setattr(replay, "SPAN_ROWS", 10)

    def set_up(work: Between) -> None:
        calls = iter(range(1 << 30))

        def watched(
            begins: Mapping[int, int], bounds: list[int], cut: Callable[[list[int]], list[Place]]
        ) -> Iterator[list[Place]]:
            for found in spans(begins, bounds, cut):
                work(next(calls))
                yield found

        monkeypatch.setattr(replay, "spans", watched)

    return set_up


@pytest.fixture
def long_log(lake: Conf, served: Service, namespace: str) -> list[int]:
    """A message a second in one topic, in the order of their bodies."""
    send(served, namespace, "t", range(SECONDS))
    now = datetime.datetime.now(datetime.UTC)
    for url in lake.shard_urls:
        with connected(url) as connection:
            connection.execute(
                "UPDATE message SET enqueued_at = %s + (convert_from(payload, 'UTF8')::int - %s) * interval '1 s' "
                "WHERE topic IN (SELECT id FROM topic WHERE namespace = %s)",
                [now, SECONDS, namespace],
            )
    wait_until_complete(lake)
    return list(range(SECONDS))


def test_slots_that_move_meanwhile_lose_nothing(
    lake: Conf, served: Service, namespace: str, long_log: list[int], sessions: Sessions, said: list[str], door: Door,
    between: Callable[[Between], None],
) -> None:  # fmt: skip
    """Their rows leave the shard where the log was found, and it is not read to its end yet."""
    slot, version = slot_of(namespace, "t"), map_version()
    home = SlotMap.objects.get(version=version).owners[slot]
    tools = mover.Tools(lake, wipe_sets, lambda _: None, 0)

    def move(call: int) -> None:
        if call == 1:
            mover.begin(tools, [slot], 1 - home)

    between(move)
    try:
        replay.replay(lake, sessions, begin(lake, wish(namespace)), said.append, door, None)
        assert map_version() > version
    finally:  # for other tests on these databases
        mover.begin(tools, [slot], home)
        SlotMap.objects.filter(version__gt=version).delete()
        SlotMove.objects.all().delete()
    assert bodies_in(served, namespace, "again") == long_log
    assert any("read again" in line for line in said)


def test_a_shard_that_is_away_for_a_moment_is_waited_for(
    lake: Conf, served: Service, namespace: str, long_log: list[int], sessions: Sessions, said: list[str], door: Door,
    between: Callable[[Between], None],
) -> None:  # fmt: skip
    def let_in(is_let: bool) -> None:
        for url in lake.shard_urls:
            name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
            with connected(lake.control_url) as connection:
                connection.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS {is_let}")

    def shut(call: int) -> None:
        if call == 0:
            time.sleep(1)  # the second wave is under way, and then the third is not
            let_in(False)
            opened.start()

    opened = threading.Timer(4, let_in, [True])
    between(shut)
    try:
        replay.replay(lake, sessions, begin(lake, wish(namespace)), said.append, door, None)
    finally:
        opened.join()
        let_in(True)
    assert any("Again in" in line for line in said), said
    assert bodies_in(served, namespace, "again") == long_log


def test_what_never_went_well_is_not_tried_again(sessions: Sessions, said: list[str]) -> None:
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        raise PySparkException("ValueError: it is wrong by itself")

    with pytest.raises(TaskFailed, match="wrong by itself"):
        Patience(sessions, said.append).with_(work)
    assert len(tries) == 1
    assert not said


def test_who_has_waited_long_enough_is_told(
    sessions: Sessions, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "WAITS_S", (0.01, 0.02))
    trying, tries = Patience(sessions, said.append), iter([0, 1, 1, 1])

    def work() -> None:
        if next(tries):
            raise PySparkException("OperationalError: no shard")

    trying.with_(work)
    with pytest.raises(TaskFailed, match="no shard"):
        trying.with_(work)
    assert said == ["A task failed: OperationalError: no shard. Again in 0.01 s",
                    "A task failed: OperationalError: no shard. Again in 0.02 s"]  # fmt: skip


def test_who_is_stopped_waits_no_longer(sessions: Sessions, said: list[str]) -> None:
    trying, tries = Patience(sessions, said.append), iter([0, 1])

    def work() -> None:
        if next(tries):
            raise PySparkException("OperationalError: no shard")

    trying.with_(work)
    trying.stop()
    began = time.monotonic()
    with pytest.raises(TaskFailed):
        trying.with_(work)
    assert time.monotonic() - began < 0.5


def test_a_shard_that_came_later_has_what_moved_there(lake: Conf) -> None:
    """By its txid: rows that moved have none."""
    assert horizons_since(lake, [700]) == [700, 1]
    assert horizons_since(lake, [700, 800]) == [700, 800]


@pytest.mark.timeout(300)  # a start of a JVM
def test_java_ends_when_all_is_read_and_who_ends_the_run_is_told_how_to_go_on(
    lake: Conf, served: Service, namespace: str, tmp_path: Path
) -> None:
    send(served, namespace, "t", range(60))
    wait_until_complete(lake)
    verb = [sys.executable, str(ROOT / "manage.py"), "pipeline", "replay", "--url", served.url]
    asked = ["--namespace", namespace, "--topic", "t", "--from", LONG_AGO.isoformat(), "--into", "again"]
    env = dict(os.environ) | {"LAKE_URL": lake.lake.url, "JWT_SECRET": SECRET, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*verb, *asked, "--rate", "4"], env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        run = next(line.split()[1] for line in process.stdout if line.startswith("replay "))
        assert any(" of 60 sent" in line for line in process.stdout)
        deadline = time.monotonic() + 8
        while any("java" in one.name() for one in psutil.Process(process.pid).children(recursive=True)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        words = process.stdout.read()
    assert process.returncode == 128 + signal.SIGTERM, words
    assert f"--resume {run} goes on" in words
    assert not list(tmp_path.glob("mqueue-shelf-*"))
