"""Messages of the past come again, once each and in order, from the lake and the live log; a killed run is resumed."""

import datetime
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mqueue.core.conf import ROOT, Conf
from pipeline.archive import archive
from pipeline.door import Door
from pipeline.errors import Busy, NothingToDo, PipelineError
from pipeline.log import Wanted, every_topic, horizons, pieces
from pipeline.messages import Unsendable, as_sent
from pipeline.models import Replay
from pipeline.pieces import Piece
from pipeline.pins import lock_of, pinned_days
from pipeline.replay import Wish, begin, dry_run, replay, resume
from pipeline.spark import Sessions
from pipeline.turns import turn
from tests.pipeline.past import grow_older, rows_of, wait_until_complete
from tests.service import SECRET, Service

pytestmark = [pytest.mark.pipeline, pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")]
NOW = datetime.datetime.now(datetime.UTC)
LONG_AGO, SOON = NOW - datetime.timedelta(days=20), NOW + datetime.timedelta(days=1)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service on the worker's own databases, where the past is."""
    folder = tmp_path_factory.mktemp("served")
    folder.chmod(0o755)
    names = ("DATABASE_URLS", "CONTROL_DATABASE_URL", "REDIS_URL")
    service = Service(folder / "data", {name: os.environ[name] for name in names}).start()
    yield service
    service.end()


@pytest.fixture
def door(served: Service, namespace: str) -> Iterator[Door]:
    door = Door(served.url, SECRET, namespace, "replay")
    yield door
    door.close()


def send(served: Service, namespace: str, topic: str, bodies: range) -> list[int]:
    with served.client() as http:
        messages = [{"namespace": namespace, "topic": topic, "body": n} for n in bodies]
        answer = http.post("/enqueue", json=messages)
        assert answer.status_code == 200, answer.text
        return list(answer.json())


def bodies_in(served: Service, namespace: str, topic: str) -> list[Any]:
    with served.client() as http:
        query = {"namespace": namespace, "topic": topic, "limit": 1000}
        return [one["body"] for one in http.get("/dequeue", params=query).json()]


def wish(namespace: str, **more: Any) -> Wish:
    return Wish(**({"namespace": namespace, "topic": "t", "first": LONG_AGO, "last": SOON, "into": "again"} | more))


def begun(conf: Conf, wished: Wish) -> Replay:
    """When all that was done before is below its horizon."""
    wait_until_complete(conf)
    return begin(conf, wished)


@pytest.fixture
def past(lake: Conf, served: Service, namespace: str, sessions: Sessions, said: list[str]) -> list[int]:
    """Bodies 0 to 29 in the lake, and 30 to 59 in the live log."""
    old = send(served, namespace, "t", range(30))
    grow_older(lake, namespace, 9)
    archive(lake, sessions, said.append)
    new = send(served, namespace, "t", range(30, 60))
    wait_until_complete(lake)
    return old + new


def test_lake_and_live_log_come_again_in_their_order(
    lake: Conf, served: Service, namespace: str, past: list[int], sessions: Sessions, said: list[str], door: Door
) -> None:
    replay(lake, sessions, begun(lake, wish(namespace)), said.append, door, None)
    assert bodies_in(served, namespace, "again") == list(range(60))
    assert Replay.objects.get().state == Replay.State.DONE
    assert Replay.objects.get().sent == 60


def test_each_topic_keeps_its_order_beside_others(
    lake: Conf, served: Service, namespace: str, sessions: Sessions, said: list[str], door: Door
) -> None:
    topics = [f"t{n}" for n in range(8)]
    for n in range(5):
        for topic in topics:
            send(served, namespace, topic, range(n, n + 1))
    replay(lake, sessions, begun(lake, wish(namespace, topic=None, into=None)), said.append, door, None)
    assert said[-1].startswith(f"replay {Replay.objects.get().name} is done: 40 sent")
    assert [bodies_in(served, namespace, topic) for topic in topics] == [[*range(5), *range(5)]] * 8


def test_a_batch_whose_answer_was_lost_adds_nothing_twice(
    lake: Conf, served: Service, namespace: str, past: list[int], sessions: Sessions, said: list[str], door: Door
) -> None:
    run = begun(lake, wish(namespace))
    replay(lake, sessions, run, said.append, door, None)
    Replay.objects.update(state=Replay.State.RUNNING, last_at=None, last_id=None, sent=0)
    replay(lake, sessions, resume(lake, run.name), said.append, door, None)
    assert said[-1].endswith("60 were there already")
    assert bodies_in(served, namespace, "again") == list(range(60))


def test_what_was_cancelled_stays_away_unless_it_is_asked_for(
    lake: Conf, served: Service, namespace: str, past: list[int], sessions: Sessions, said: list[str], door: Door
) -> None:
    with served.client() as http:
        gone = http.delete(f"/messages/{past[31]}", params={"namespace": namespace, "topic": "t"})
        assert gone.status_code == 200
    replay(lake, sessions, begun(lake, wish(namespace)), said.append, door, None)
    assert bodies_in(served, namespace, "again") == [n for n in range(60) if n != 31]
    replay(lake, sessions, begun(lake, wish(namespace, into="all", include_deleted=True)), said.append, door, None)
    assert bodies_in(served, namespace, "all") == list(range(60))
    before = NOW - datetime.timedelta(hours=1)
    replay(lake, sessions, begun(lake, wish(namespace, into="before", as_of=before)), said.append, door, None)
    assert bodies_in(served, namespace, "before") == list(range(30))


def test_what_was_cancelled_stays_away_when_that_is_told_in_the_lake_alone(
    lake: Conf, served: Service, namespace: str, sessions: Sessions, said: list[str], door: Door
) -> None:
    ids = send(served, namespace, "t", range(10))
    with served.client() as http:
        assert http.delete(f"/messages/{ids[3]}", params={"namespace": namespace, "topic": "t"}).status_code == 200
    grow_older(lake, namespace, 9)
    archive(lake, sessions, said.append)
    assert not [piece for piece in pieces_of_events(lake) if not piece.path]
    replay(lake, sessions, begun(lake, wish(namespace)), said.append, door, None)
    assert bodies_in(served, namespace, "again") == [n for n in range(10) if n != 3]


def pieces_of_events(conf: Conf) -> list[Piece]:
    days = frozenset([(NOW - datetime.timedelta(days=n)).date() for n in (8, 9, 10)])
    return pieces(conf, "event", Wanted(days, every_topic(conf)), horizons(conf))


def test_a_condition_a_bound_and_a_time_choose(
    lake: Conf, served: Service, namespace: str, past: list[int], sessions: Sessions, said: list[str], door: Door
) -> None:
    some = wish(namespace, where="CAST(body AS int) % 2 = 1", most=20, first=NOW - datetime.timedelta(hours=1))
    replay(lake, sessions, begun(lake, some), said.append, door, None)
    assert bodies_in(served, namespace, "again") == [n for n in range(30, 60) if n % 2][:20]
    with pytest.raises(PipelineError, match="--where"):
        replay(lake, sessions, begun(lake, wish(namespace, where="no_such = 1")), said.append, door, None)


def test_what_is_skipped_does_not_count_as_one_of_the_most(
    lake: Conf, served: Service, namespace: str, sessions: Sessions, said: list[str], door: Door
) -> None:
    with served.client() as http:
        often = {"headers": {"replay_count": "3"}}
        messages = [
            {"namespace": namespace, "topic": "t", "body": n} | (often if n in {1, 2, 4} else {}) for n in range(20)
        ]
        assert http.post("/enqueue", json=messages).status_code == 200
    replay(lake, sessions, begun(lake, wish(namespace, most=10)), said.append, door, None)
    assert bodies_in(served, namespace, "again") == [0, 3, *range(5, 13)]
    assert "10 sent, 3 skipped" in said[-1]


def test_a_dry_run_shows_the_hours_and_sends_nothing(
    lake: Conf, served: Service, namespace: str, past: list[int], sessions: Sessions, said: list[str]
) -> None:
    dry_run(lake, sessions, begun(lake, wish(namespace)), said.append)
    assert said[-1] == "60 messages"
    assert said[-2].endswith("#" * 50)
    assert bodies_in(served, namespace, "again") == []
    assert not Replay.objects.exists()
    with pytest.raises(NothingToDo):
        dry_run(lake, sessions, begun(lake, wish(namespace, topic="nobody")), said.append)


def test_a_dry_run_of_a_run_that_was_stopped_shows_what_is_left_and_leaves_its_place(
    lake: Conf, served: Service, namespace: str, past: list[int], sessions: Sessions, said: list[str], door: Door
) -> None:
    run = begun(lake, wish(namespace))
    sent = sorted((row["enqueued_at"], row["id"]) for row in rows_of(lake, "message", namespace))[:20]
    Replay.objects.update(sent=20, last_at=sent[-1][0], last_id=sent[-1][1])
    dry_run(lake, sessions, resume(lake, run.name), said.append, is_resumed=True)
    assert said[-1] == "40 messages"
    replay(lake, sessions, resume(lake, run.name), said.append, door, None)
    assert bodies_in(served, namespace, "again") == list(range(20, 60))


def test_a_run_that_rested_longer_than_keys_are_kept_is_not_resumed(lake: Conf, namespace: str) -> None:
    run = begun(lake, wish(namespace))
    resume(lake, run.name)
    Replay.objects.update(touched_at=NOW - datetime.timedelta(days=2))
    with pytest.raises(PipelineError, match="dedupe window"):
        resume(lake, run.name)


def test_what_cannot_be_done_leaves_no_run_that_keeps_days(
    lake: Conf, namespace: str, past: list[int], sessions: Sessions, said: list[str], door: Door
) -> None:
    with pytest.raises(NothingToDo, match="no such topic"):
        replay(lake, sessions, begun(lake, wish(namespace, topic="nobody")), said.append, door, None)
    with pytest.raises(PipelineError, match="--where"):
        replay(lake, sessions, begun(lake, wish(namespace, where="no_such = 1")), said.append, door, None)
    assert not Replay.objects.exists()


def test_one_process_is_at_a_run_at_a_time_and_keeps_its_days_however_long_it_takes(
    lake: Conf, served: Service, namespace: str, past: list[int], sessions: Sessions, said: list[str], door: Door
) -> None:
    run = begun(lake, wish(namespace))
    with turn(lake, lock_of(run)):
        with pytest.raises(Busy):
            replay(lake, sessions, run, said.append, door, None, is_resumed=True)
        Replay.objects.update(touched_at=NOW - datetime.timedelta(days=2))
        assert pinned_days(lake) == set(run.days)
    assert pinned_days(lake) == set()
    Replay.objects.update(touched_at=NOW)
    replay(lake, sessions, run, said.append, door, None, is_resumed=True)
    assert bodies_in(served, namespace, "again") == list(range(60))


def test_a_run_is_looked_at_again_when_its_turn_has_come(
    lake: Conf, served: Service, namespace: str, past: list[int], sessions: Sessions, said: list[str], door: Door
) -> None:
    """Another process may have been at it since it was read, and its keys may be forgotten by now."""
    run = begun(lake, wish(namespace))
    stale = resume(lake, run.name)
    Replay.objects.update(touched_at=NOW - datetime.timedelta(days=2))
    with pytest.raises(PipelineError, match="dedupe window"):
        replay(lake, sessions, stale, said.append, door, None, is_resumed=True)
    Replay.objects.update(touched_at=NOW)
    replay(lake, sessions, run, said.append, door, None)
    with pytest.raises(NothingToDo, match="is done"):
        replay(lake, sessions, stale, said.append, door, None, is_resumed=True)
    assert bodies_in(served, namespace, "again") == list(range(60))


def test_days_on_which_a_message_may_have_been_deleted_are_kept_too(lake: Conf, namespace: str) -> None:
    long_ago = wish(namespace, first=NOW - datetime.timedelta(days=300), last=NOW - datetime.timedelta(days=299))
    assert {NOW.date(), long_ago.first.date()} <= set(begun(lake, long_ago).days)
    assert NOW.date() not in begun(lake, replace(long_ago, include_deleted=True)).days


class Noting(Door):
    """And what it was answered."""

    answered: ClassVar[list[int]] = []

    def another(self) -> Door:
        return Noting(self.url, self.secret, self.namespace, self.subject)

    def _post(self, body: bytes, deadline: float) -> tuple[int, dict[str, str], str]:
        answer = super()._post(body, deadline)
        self.answered.append(answer[0])
        return answer


def test_quotas_hold_for_a_replay_and_it_waits_as_it_is_told(
    lake: Conf, served: Service, namespace: str, sessions: Sessions, said: list[str]
) -> None:
    """A batch that is larger than what a quota lets through at once goes in parts."""
    send(served, namespace, "t", range(1000))
    run = begun(lake, wish(namespace))
    with served.client() as http:
        quota = {"messages_per_minute": 6_000}  # 600 at once, and 100 a second
        assert http.patch(f"/api/v1/namespaces/{namespace}/quotas/", json=quota).status_code == 200
        time.sleep(2.5)  # until every process knows
    began = time.monotonic()
    replay(lake, sessions, run, said.append, Noting(served.url, SECRET, namespace, "replay"), None)
    assert time.monotonic() - began > 3.5
    assert Noting.answered[0] == 413
    assert 429 in Noting.answered
    assert sorted(Noting.answered)[:2] == [200, 200]
    assert bodies_in(served, namespace, "again") == list(range(1000))


def row(**more: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "id": 7, "namespace": "n", "topic": "t", "priority": 5, "headers": None, "is_json": True, "payload": b"1",
        "retry": None, "ttl_ms": None, "max_retries": None, "traceparent": None, "deliver_after": None,
    }  # fmt: skip
    return plain | more


def test_a_loop_of_replays_ends() -> None:
    sent = as_sent(row(headers='{"replay_count": "2", "a": "b"}'), "r", None, 3)
    assert b'"replay_count":"3"' in sent
    assert b'"a":"b"' in sent
    with pytest.raises(Unsendable):
        as_sent(row(headers='{"replay_count": "3"}'), "r", None, 3)


def killed_and_resumed(env: dict[str, str], url: str, namespace: str) -> None:
    """Slowly, killed after the first line of progress, and then resumed to its end."""
    verb = [sys.executable, str(ROOT / "manage.py"), "pipeline", "replay", "--url", url]
    asked = ["--namespace", namespace, "--topic", "t", "--from", LONG_AGO.isoformat(), "--into", "again"]
    run = ""
    with subprocess.Popen(
        [*verb, *asked, "--rate", "10"], env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout or ():
            if line.startswith("replay "):
                run = line.split()[1]
            if " of 60 sent" in line:
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    resumed = subprocess.run([*verb, "--resume", run], env=env, cwd=ROOT, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr


@pytest.mark.timeout(300)  # two starts of a JVM
def test_a_run_that_is_killed_and_resumed_adds_each_once(
    lake: Conf, served: Service, namespace: str, past: list[int]
) -> None:
    env = dict(os.environ) | {"LAKE_URL": lake.lake.url, "JWT_SECRET": SECRET}
    killed_and_resumed(env, served.url, namespace)
    assert bodies_in(served, namespace, "again") == list(range(60))


@pytest.mark.timeout(300)  # a start of a JVM
def test_what_is_sent_stays_out_of_the_memory_of_the_driver(
    lake: Conf, served: Service, namespace: str, tmp_path: Path
) -> None:
    """Spark keeps what has come to it until its session ends, and a replay may be of any size."""
    bodies = [secrets.token_hex(1_000) for _ in range(200)]
    with served.client() as http:
        http.post("/enqueue", json=[{"namespace": namespace, "topic": "t", "body": body} for body in bodies])
    wait_until_complete(lake)
    verb = [sys.executable, str(ROOT / "manage.py"), "pipeline", "replay", "--url", served.url]
    asked = ["--namespace", namespace, "--topic", "t", "--from", LONG_AGO.isoformat(), "--into", "again"]
    own = {"LAKE_URL": lake.lake.url, "JWT_SECRET": SECRET, "TMPDIR": str(tmp_path)}
    small = {"PYSPARK_SUBMIT_ARGS": "--conf spark.driver.maxResultSize=50k pyspark-shell"}
    done = subprocess.run([*verb, *asked], env=dict(os.environ) | own | small, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert bodies_in(served, namespace, "again") == bodies
    assert not list(tmp_path.glob("mqueue-shelf-*"))
