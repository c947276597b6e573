"""The verbs on a cluster, and through Spark Connect: workers are processes that know nothing but their environment."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mqueue.core.conf import ROOT
from pipeline.java import find_java
from pipeline.session import DEFAULTS
from tests.pipeline.past import day_before, rows_of
from tests.pipeline.runs import Runs, family_of, until, workers_of
from tests.service import SECRET, Service, free_port

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(1200)]  # several starts of a JVM
CLUSTER = "local-cluster[2,1,1024]"
DAYS = 9


def test_a_task_whose_worker_is_killed_is_done_again_on_another(runs: Runs) -> None:
    """The tasks are held up in the shards, so that they are killed in their midst."""
    with ExitStack() as stack:
        process = stack.enter_context(runs.start("archive", "--master", CLUSTER))
        until(process, "measured")
        held = [stack.enter_context(psycopg.connect(url)) for url in runs.conf.shard_urls]
        for connection in held:
            connection.execute(f"LOCK TABLE message_{day_before(DAYS):%Y%m%d} IN ACCESS EXCLUSIVE MODE")  # type: ignore[arg-type]
        first = soon(lambda: waiting(runs), "a task waits for its rows")
        daemons = {one.pid for one in workers_of(process)}
        for worker in workers_of(process):
            if worker.ppid() in daemons:  # the forks that do the work
                worker.send_signal(signal.SIGKILL)
        soon(lambda: waiting(runs) - first, "it is tried again")
        for connection in held:
            connection.rollback()
        output, _ = process.communicate()
    assert process.returncode == 0, output
    assert runs.end("verify", "--master", CLUSTER) == 0
    for parent in ("message", "event"):
        assert runs.rows_in_use(parent) == len(rows_of(runs.conf, parent, "acme"))


def waiting(runs: Runs) -> set[int]:
    """Backends of the shards that wait for the day's table."""
    found: set[int] = set()
    for url in runs.conf.shard_urls:
        with psycopg.connect(url) as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_locks l JOIN pg_class c ON c.oid = l.relation "
                "WHERE NOT l.granted AND c.relname = %s",
                [f"message_{day_before(DAYS):%Y%m%d}"],
            )
            found |= {pid for (pid,) in rows.fetchall()}
    return found


def soon(condition: Callable[[], Any], what: str, patience_s: float = 600) -> Any:
    deadline = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return found


@pytest.fixture
def server(runs: Runs, folder: Path) -> Iterator[str]:
    """A Spark Connect server, started as a user would, from another folder."""
    import pyspark

    port, log = free_port(), folder / "connect.log"
    script = Path(pyspark.__file__).parent / "sbin" / "start-connect-server.sh"
    settings = DEFAULTS | {"spark.connect.grpc.binding.port": str(port)}
    given = [part for item in settings.items() for part in ("--conf", "=".join(item))]
    env = runs.env | {
        "JAVA_HOME": str(find_java().parent.parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    command = ["bash", str(script), "--wait", "--master", "local[2]", *given]
    with open(log, "wb") as output:
        process = subprocess.Popen(command, env=env, cwd=folder, stdout=output, stderr=output, text=True)
    try:
        soon(lambda: process.poll() is not None or answers(port), "the server answers")
        assert process.poll() is None, log.read_text()
        yield f"sc://127.0.0.1:{port}"
    finally:
        for one in family_of(process) if process.poll() is None else []:
            one.kill()
        process.wait()


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_every_verb_works_through_spark_connect(runs: Runs, server: str) -> None:
    for verb in ("archive", "verify", "usage", "failures", "compact"):
        assert runs.end(verb, "--remote", server) in (0, 3)
    assert runs.end("verify") == 0
    for parent in ("message", "event"):
        assert runs.rows_in_use(parent) == len(rows_of(runs.conf, parent, "acme")) > 0
    ((sent,),) = runs.rows("SELECT sum(messages)::int FROM usage_hour WHERE namespace = 'acme'")
    assert sent == len(rows_of(runs.conf, "message", "acme"))
    asked = ["--namespace", "acme", "--from", str(day_before(DAYS + 1)), "--dry-run", "--remote", server]
    assert said(runs, "replay", *asked) == (0, f"{sent} messages")
    code, last = said(runs, "replay", *asked, "--where", "nobody = 1")
    assert (code, last.split(":")[0]) == (1, "--where")
    assert replayed(runs, server) == sent
    assert runs.end("erase", "--namespace", "acme", "--yes", "--now", "--remote", server) == 0
    assert not [path for path in runs.files() if "/message/" in path or "/event/" in path]


def replayed(runs: Runs, server: str) -> int:
    """Its tasks lay their messages in the lake, and none stays there."""
    names = ("DATABASE_URLS", "CONTROL_DATABASE_URL", "REDIS_URL")
    served = Service(runs.folder.parent / "served", {name: runs.env[name] for name in names}).start()
    runs.env["JWT_SECRET"] = SECRET
    try:
        asked = ["--namespace", "acme", "--from", str(day_before(DAYS + 1)), "--into", "again", "--remote", server]
        code, last = said(runs, "replay", *asked, "--url", served.url)
        with served.client() as http:
            found = http.get("/dequeue", params={"namespace": "acme", "topic": "again", "limit": 1000}).json()
    finally:
        served.end()
    assert code == 0, last
    assert not list(runs.folder.rglob("*.arrow"))
    return len(found)


def said(runs: Runs, *verb: str) -> tuple[int, str]:
    """The exit code, and the last line."""
    with runs.start(*verb) as process:
        lines = process.stdout.read().splitlines() if process.stdout else []
    return process.returncode, lines[-1]
