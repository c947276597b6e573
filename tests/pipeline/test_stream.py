"""Leads are enriched from one topic into another, each once, wherever the run is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mqueue.core.conf import ROOT, Conf
from pipeline.enrich import enriched
from pipeline.spark import Sessions
from tests.pipeline.past import rows_of, wait_until_complete
from tests.pipeline.runs import family_of
from tests.service import SECRET, Service

pytestmark = [pytest.mark.pipeline, pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")]
LEADS, AT_ONCE = 300, 5


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """On the worker's own databases."""
    folder = tmp_path_factory.mktemp("served") / "data"
    folder.mkdir()
    names = ("DATABASE_URLS", "CONTROL_DATABASE_URL", "REDIS_URL")
    env = {name: os.environ[name] for name in names}
    service = Service(folder, env, [sys.executable, "-m", "launch", "only", "api"]).start(wait=False)
    service.until(service.is_ready, 120, "the API answers")
    yield service
    service.end()


def test_a_lead_is_told_by_its_own_words(sessions: Sessions) -> None:
    def told(lead: str | None, **fields: Any) -> dict[str, Any]:
        row = {"id": 7, "body": lead, "payload": b"", "priority": 3, "traceparent": None} | fields
        schema = "id long, body string, payload binary, priority short, traceparent string"
        (found,) = enriched(sessions.get().createDataFrame([row], schema), "known").collect()
        assert (found.idempotency_key, found.priority) == ("enriched:known:7", 3)
        return dict(json.loads(found.body))

    good = told(
        '{"email": " Ada@Example.com", "name": "Ada", "company": "Example", "phone": "+49 (30) 1234", '
        '"source": "Referral", "employees": 1000}'
    )
    assert good == {
        "lead_id": 7, "email": "ada@example.com", "domain": "example.com", "name": "Ada", "company": "Example",
        "phone": "+49301234", "country": "DE", "is_company": True, "score": 100, "grade": "hot",
    }  # fmt: skip
    private = told('{"email": "bob@gmail.com", "phone": "030 1"}')
    assert (private["is_company"], private["score"], private["grade"]) == (False, 0, "cold")
    for odd in ('{"email": "nobody"}', "[]", '"a"', "17", None):
        assert told(odd) == {"lead_id": 7, "problem": "no e-mail address"} | (
            {"email": "nobody"} if odd and "nobody" in odd else {}
        )


class Runs:
    """`manage.py pipeline stream`, as a process of its own."""

    def __init__(self, lake: Conf, served: Service, namespace: str, folder: Path) -> None:
        self.lake, self.namespace, self._served = lake, namespace, served
        self._env = dict(os.environ) | {"LAKE_URL": lake.lake.url, "JWT_SECRET": SECRET}
        self._command = [
            sys.executable, str(ROOT / "manage.py"), "pipeline", "stream", "--namespace", namespace, "--topic", "leads",
            "--into", "enriched", "--checkpoint", str(folder / "checkpoint"), "--max-rows", "20", "--every", "0.1",
            "--url", served.url,
        ]  # fmt: skip

    def send(self, numbers: range) -> None:
        with self._served.client() as http:
            for start in range(numbers.start, numbers.stop, AT_ONCE):
                some = range(start, min(start + AT_ONCE, numbers.stop))
                place = {"namespace": self.namespace, "topic": "leads"}
                leads = [place | {"body": {"email": f"{n}@example.com"}} for n in some]
                assert http.post("/enqueue", json=leads).status_code == 200
        wait_until_complete(self.lake)

    def enriched(self) -> Counter[str]:
        """Every message that was ever added to the target."""
        rows = [row for row in rows_of(self.lake, "message", self.namespace) if row["name"] == "enriched"]
        return Counter(json.loads(bytes(row["payload"]))["email"] for row in rows)

    @contextmanager
    def started(self, *more: str) -> Iterator["subprocess.Popen[str]"]:
        with subprocess.Popen(
            [*self._command, *more],
            env=self._env,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                kill(process)

    def once(self) -> tuple[int, str]:
        done = subprocess.run([*self._command, "--once"], env=self._env, cwd=ROOT, capture_output=True, text=True)
        return done.returncode, done.stdout


def kill(process: "subprocess.Popen[str]", named: str = "") -> None:
    """The driver, its JVM and the workers at once, or those of a name alone."""
    if process.poll() is None:
        for one in family_of(process):
            if named in one.name():
                one.send_signal(signal.SIGKILL)


def wait_for_batch(process: "subprocess.Popen[str]") -> None:
    assert process.stdout
    for line in process.stdout:
        if line.startswith("batch "):
            return
    pytest.fail(f"it ended with {process.wait()}")


def wait_for_more(runs: Runs, process: "subprocess.Popen[str]", than: int) -> None:
    """In mid-batch: its messages are there, and Spark has not noted that yet."""
    deadline = time.monotonic() + 300
    while runs.enriched().total() <= than:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def runs(lake: Conf, served: Service, namespace: str, tmp_path: Path) -> Runs:
    return Runs(lake, served, namespace, tmp_path)


@pytest.mark.fault
@pytest.mark.timeout(1200)  # many starts of a JVM, on a machine that may be busy
def test_a_stream_that_is_killed_again_and_again_enriches_each_lead_once(runs: Runs) -> None:
    runs.send(range(LEADS // 2))
    with runs.started() as process:
        wait_for_batch(process)
        kill(process)
        assert process.wait() == -signal.SIGKILL
    with runs.started() as process:  # no batch is over when it is killed: its messages alone tell of it
        wait_for_more(runs, process, runs.enriched().total())
        kill(process)
        assert process.wait() == -signal.SIGKILL
    with runs.started() as process:
        wait_for_batch(process)
        kill(process, "java")
        assert process.wait() not in (0, 3, 4, -signal.SIGKILL)
    assert 0 < len(runs.enriched()) < LEADS // 2
    runs.send(range(LEADS // 2, LEADS))
    code, said = runs.once()
    assert code == 0, said
    assert runs.enriched() == Counter(f"{n}@example.com" for n in range(LEADS))
    assert runs.once()[0] == 3


def test_a_stream_ends_at_a_signal_and_two_take_turns(runs: Runs) -> None:
    runs.send(range(10))
    with runs.started() as process:
        wait_for_batch(process)
        assert runs.once()[0] == 4
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate()
        assert rest.splitlines()[-1] == "10 leads enriched"
        assert process.returncode == 0
    assert runs.enriched() == Counter(f"{n}@example.com" for n in range(10))
