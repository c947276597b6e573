"""Processes are renewed one after another, and stopped, while clients go on: no request fails."""

import http.client
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

from mqueue.core import tokens
from mqueue.core.conf import ROOT
from tests.faults.test_buffered import Producer, make_buffered
from tests.servers import running, worker_number
from tests.service import SECRET, START_S, Service

pytestmark = pytest.mark.fault
NAMESPACE = "rolling"


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    prefix = f"roll{worker_number()}_{os.urandom(3).hex()}"
    running().clone(prefix)
    yield running().environment(prefix, 48 + worker_number()) | {"MQUEUE_API_WORKERS": "2"}
    running().drop(prefix)


@pytest.fixture
def service(folder: Path, environment: dict[str, str]) -> Iterator[Service]:
    service = Service(folder / "data", environment)
    try:
        yield service.start()
    finally:
        service.end()


class Client(threading.Thread):
    """Enqueues, dequeues and acks on a topic of its own, and knows what has to come; over one connection for as long as
    the server lets it, or over a new one for each request."""

    def __init__(self, service: Service, number: int, *, keeps: bool, wait_ms: int = 0) -> None:
        super().__init__()
        self._service, self._topic, self._keeps, self._wait_ms = service, f"t{number}", keeps, wait_ms
        self._headers = {
            "authorization": "Bearer " + tokens.make(SECRET, "roller", ["*"], ["*"], 3600),
            "content-type": "application/json",
        } | ({} if keeps else {"connection": "close"})
        self._line: http.client.HTTPConnection | None = None
        self.stop = threading.Event()
        self.failed: list[str] = []
        self.refused = 0
        self.statuses: Counter[int] = Counter()
        self.lines = 0

    def run(self) -> None:
        self._work()
        if self._line:
            self._line.close()

    def _work(self) -> None:
        while not self.stop.is_set() and not self.failed:
            body = secrets.token_hex(4)
            sent = self._ask("/enqueue", {"namespace": NAMESPACE, "topic": self._topic, "body": body})
            wanted = {"namespace": NAMESPACE, "topic": self._topic, "visibility_ms": 60_000, "wait_ms": self._wait_ms}
            found = self._ask("/dequeue", wanted)
            if found == [] and self._wait_ms:  # a process that is to end lets nobody wait
                found = self._ask("/dequeue", wanted)
            if sent is None or found is None:
                continue
            if [(one["id"], one["body"]) for one in found] != [(sent[0], body)]:
                self.failed.append(f"{found} instead of {sent}")
            settled = self._ask("/ack", found)
            if settled is not None and settled != [{"id": sent[0], "state": "acked"}]:
                self.failed.append(f"ack: {settled}")
            if self._wait_ms and self._ask("/dequeue", wanted | {"topic": "empty"}):
                self.failed.append("something came out of nothing")

    def _ask(self, path: str, body: Any) -> Any:
        """None where nobody listened: then nothing was sent."""
        if self._line is None:
            line = http.client.HTTPConnection("127.0.0.1", self._service.port, timeout=30)
            try:
                line.connect()
            except ConnectionRefusedError:
                self.refused += 1
                time.sleep(0.01)
                return None
            self._line, self.lines = line, self.lines + 1
        try:
            self._line.request("POST", path, json.dumps(body), self._headers)
            answer = self._line.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.failed.append(f"{path}: {error!r}")
            self._line.close()
            return None
        self.statuses[answer.status] += 1
        if answer.status != 200:
            self.failed.append(f"{path}: {answer.status} {text[:200]!r}")
        if answer.will_close:
            self._line.close()
            self._line = None
        return json.loads(text)


class Clients:
    def __init__(self, service: Service) -> None:
        self.all = [Client(service, n, keeps=n % 2 == 0, wait_ms=300 if n >= 4 else 0) for n in range(6)]

    def __enter__(self) -> Self:
        for client in self.all:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.all:
            client.stop.set()
        for client in self.all:
            client.join()

    @property
    def failures(self) -> list[str]:
        return [failure for client in self.all for failure in client.failed]


def workers(service: Service) -> set[int]:
    return {process.pid for process in psutil.Process(service.pid_of("api")).children()}


def restart(service: Service) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "launch", "restart"]
    return subprocess.run(command, env=service.env, cwd=ROOT, capture_output=True, text=True, timeout=180)


def test_every_process_is_renewed_and_no_request_fails(service: Service) -> None:
    before = workers(service), service.pid_of("daemons"), service.pid_of("celery")
    parent = service.pid_of("api")
    with Clients(service) as clients:
        time.sleep(0.5)
        done = restart(service)
        assert done.returncode == 0, done.stderr + service.output()[-2000:]
        time.sleep(0.5)
    after = workers(service), service.pid_of("daemons"), service.pid_of("celery")
    assert clients.failures == []
    assert all(set(client.statuses) == {200} and client.statuses[200] > 20 for client in clients.all)
    assert sum(client.refused for client in clients.all) == 0
    assert all(client.lines > 1 for client in clients.all)  # whoever kept his connection was told that it ends
    assert not before[0] & after[0]
    assert len(after[0]) == 2
    assert service.pid_of("api") == parent
    assert not {before[1], before[2]} & {after[1], after[2]}
    assert [pid for pid in (*before[0], *before[1:]) if psutil.pid_exists(pid)] == []  # type: ignore[misc]
    assert service.stop() == 0
    assert service.descendants() == []


def test_a_renewal_refuses_no_buffered_message_and_keeps_their_order(service: Service) -> None:
    make_buffered(service, "buffered", connections=8)
    with Producer(service, "buffered") as producer:
        time.sleep(0.5)
        done = restart(service)
        assert done.returncode == 0, done.stderr + service.output()[-2000:]
        time.sleep(0.5)
    assert (producer.refused, producer.in_doubt) == ([], set())
    producer.verdict()


def test_workers_that_do_not_start_leave_the_old_ones_in_their_places(
    folder: Path, environment: dict[str, str]
) -> None:
    """As with a release that is broken: a module that is found first, and ends whoever imports it."""
    release, told = folder / "release", folder / "told"
    release.mkdir()
    env = environment | {"PYTHONPATH": str(release), "MQUEUE_READY_FILE": str(told)}
    command = [sys.executable, "-m", "mqueue.serve", "api"]
    service = Service(folder / "api", env, command).start(wait=False)
    try:
        service.until(service.is_ready, START_S, "the API answers")
        assert service.process
        before = {process.pid for process in psutil.Process(service.process.pid).children()}
        (release / "sitecustomize.py").write_text("import os; os._exit(7)")
        with Clients(service) as clients:
            service.process.send_signal(signal.SIGHUP)
            service.until(told.exists, 20, "the renewal is over")
        assert "did not begin to serve" in told.read_text()
        assert clients.failures == []
        assert {process.pid for process in psutil.Process(service.process.pid).children()} == before
        (release / "sitecustomize.py").unlink()
        told.unlink()
        service.process.send_signal(signal.SIGHUP)
        service.until(told.exists, 20, "the renewal is over")
        assert not told.read_text()
        assert not {process.pid for process in psutil.Process(service.process.pid).children()} & before
    finally:
        service.end()


def test_whoever_is_connected_is_served_when_the_api_stops(folder: Path, environment: dict[str, str]) -> None:
    """Before it ends, each connection gets its answers; afterwards nobody listens, and that is all that clients see."""
    service = Service(folder / "api", environment, [sys.executable, "-m", "launch", "only", "api"]).start(wait=False)
    try:
        service.until(service.is_ready, START_S, "the API answers")
        with Clients(service) as clients:
            time.sleep(1)
            began = time.monotonic()
            assert service.stop() == 0
            took_s = time.monotonic() - began
        assert took_s < 5
        assert clients.failures == []
        assert all(client.refused for client in clients.all)
    finally:
        service.end()


def test_a_silent_connection_does_not_hold_up_the_end(folder: Path, environment: dict[str, str]) -> None:
    service = Service(folder / "api", environment, [sys.executable, "-m", "launch", "only", "api"]).start(wait=False)
    lines: list[http.client.HTTPConnection] = []
    try:
        service.until(service.is_ready, START_S, "the API answers")
        lines += [http.client.HTTPConnection("127.0.0.1", service.port, timeout=30) for _ in range(4)]
        for line in lines:
            line.request("GET", "/live")
            assert line.getresponse().read()
        began = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - began < 4
    finally:
        for line in lines:
            line.close()
        service.end()
