"""SIGKILL at every step of a replay, and of its JVM alone: resumed as often as it takes, it sends each message once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import pytest

from mqueue.core.conf import ROOT, Conf
from pipeline.models import Replay
from tests.pipeline.past import grow_older, wait_until_complete
from tests.pipeline.relay import Moment, Relay
from tests.pipeline.runs import kill, until, workers_of
from tests.pipeline.test_replay import LONG_AGO, bodies_in, send
from tests.service import SECRET, Service

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.timeout(1200),  # many starts of a JVM
]
COUNT, RATE = 60, 10  # ten messages a batch
PATIENCE_S = 600
WAITING = "locktype = 'advisory' AND objid = 4711 AND NOT granted"
HELD = """
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END$$;
CREATE TRIGGER hold BEFORE UPDATE ON lake_replay FOR EACH ROW WHEN (NEW.state = 'done') EXECUTE FUNCTION hold();
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service on the worker's own databases, where the past is."""
    folder = tmp_path_factory.mktemp("served")
    folder.chmod(0o755)
    names = ("DATABASE_URLS", "CONTROL_DATABASE_URL", "REDIS_URL")
    service = Service(folder / "data", {name: os.environ[name] for name in names}).start()
    yield service
    service.end()


@dataclass
class Run:
    """One replay, begun once and then resumed."""

    conf: Conf
    namespace: str
    relay: Relay
    name: str = ""

    def start(self) -> "subprocess.Popen[str]":
        asked = ["--namespace", self.namespace, "--topic", "t", "--from", LONG_AGO.isoformat(), "--into", "again"]
        verb = [sys.executable, str(ROOT / "manage.py"), "pipeline", "replay", "--url", self.relay.url]
        return subprocess.Popen(
            [*verb, *(["--resume", self.name] if self.name else asked), "--rate", str(RATE)],
            env=dict(os.environ) | {"LAKE_URL": self.conf.lake.url, "JWT_SECRET": SECRET},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self) -> tuple[int, str]:
        with self.start() as process:
            output, _ = process.communicate()
        return process.returncode, output

    def killed_at_once(self) -> None:
        """It is on record, and has read nothing."""
        with self.start() as process:
            until(process, "replay ")
            kill(process)
        self.name = Replay.objects.get().name

    def killed_at(self, number: int, moment: Moment) -> None:
        self.relay.stop_at(number, moment)
        with self.start() as process:
            assert self.relay.stopped.wait(PATIENCE_S), process.poll()
            kill(process)
        assert process.returncode == -signal.SIGKILL
        self.name = Replay.objects.get().name

    def without_a_jvm(self) -> int:
        """That dies as soon as it reads; the exit code."""
        with self.start() as process:
            until(process, "replay ")
            while not workers_of(process):
                assert process.poll() is None, "it ended"
                time.sleep(0.02)
            kill(process, "java")
            process.communicate()
        return process.returncode


@contextmanager
def held_at_its_end(conf: Conf) -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
    """Everything is sent and noted, but for the run's own end."""
    with psycopg.connect(conf.control_url, autocommit=True) as connection:
        connection.execute(HELD)
        connection.execute("SELECT pg_advisory_lock(4711)")
        try:
            yield connection
        finally:
            while somebody_waits(connection):  # or its server process would go on for it
                connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_locks WHERE {WAITING}")
                time.sleep(0.05)
            connection.execute("SELECT pg_advisory_unlock(4711)")
            connection.execute("DROP TRIGGER hold ON lake_replay; DROP FUNCTION hold")


def somebody_waits(connection: "psycopg.Connection[tuple[object, ...]]") -> bool:
    return connection.execute(f"SELECT 1 FROM pg_locks WHERE {WAITING}").fetchone() is not None


@pytest.fixture
def run(lake: Conf, served: Service, namespace: str) -> Iterator[Run]:
    """Of messages of two days."""
    send(served, namespace, "t", range(COUNT // 2))
    grow_older(lake, namespace, 9)
    send(served, namespace, "t", range(COUNT // 2, COUNT))
    wait_until_complete(lake)
    with Relay(served.url) as relay:
        yield Run(lake, namespace, relay)


def test_a_replay_that_is_killed_before_and_while_it_reads_sends_each_once(run: Run, served: Service) -> None:
    run.killed_at_once()
    assert run.without_a_jvm() not in (0, 3, 4, 5, -signal.SIGKILL)
    assert sent(served, run.namespace) == 0
    run.killed_at(2, "asked")
    assert COUNT > sent(served, run.namespace) >= RATE
    code, output = run.end()
    assert code == 0, output
    assert run.end()[0] == 3
    assert bodies_in(served, run.namespace, "again") == list(range(COUNT))


def test_a_replay_that_is_killed_before_it_notes_what_it_sent_sends_each_once(run: Run, served: Service) -> None:
    run.killed_at(2, "answered")
    assert 0 < Replay.objects.get().sent < sent(served, run.namespace) < COUNT
    with held_at_its_end(run.conf) as connection, run.start() as process:
        while not somebody_waits(connection):
            assert process.poll() is None, "nobody came to the end"
            time.sleep(0.05)
        kill(process)
    assert Replay.objects.get().state == Replay.State.RUNNING
    assert sent(served, run.namespace) == COUNT
    assert run.end()[0] in (0, 3)
    assert Replay.objects.get().state == Replay.State.DONE
    assert bodies_in(served, run.namespace, "again") == list(range(COUNT))


def sent(served: Service, namespace: str) -> int:
    with served.client() as http:
        topics = http.get("/stats", params={"namespace": namespace, "topic": "again"}).json()["topics"]
    return sum(topic["ready"] for topic in topics)
