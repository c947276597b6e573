"""Buffered topics: whatever is killed, stopped, forgotten or full, each 202 comes once, in its producer's order."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import httpx
import psutil
import pytest
import redis

from mqueue.core.conf import ROOT, read
from mqueue.hot import keys
from tests.servers import running, worker_number
from tests.service import START_S, Service

pytestmark = pytest.mark.fault
NAMESPACE = "buffered"
LARGE = "x" * 50_000


def make_buffered(service: Service, *topics: str, connections: int = 1) -> None:
    with service.client() as http:
        home = f"/api/v1/namespaces/{NAMESPACE}/"
        assert http.put(home, json={}).status_code in (200, 201)
        for topic in topics:
            assert http.put(f"{home}topics/{topic}/", json={"durability": "buffered"}).status_code in (200, 201)

    def takes_them() -> bool:
        """Where there are several processes, by several connections: each has to know."""
        sent = [{"namespace": NAMESPACE, "topic": topic, "body": "warm"} for topic in topics]
        for _ in range(connections):
            with service.client() as http:
                if any(http.post("/enqueue", json=one).status_code != 202 for one in sent):
                    return False
        return True

    service.until(takes_them, 10, "the topics are buffered")


class Producer(threading.Thread):
    """Sends numbers to a topic of its own, one after the other, and notes what it was told."""

    def __init__(self, service: Service, topic: str, body: str = "") -> None:
        super().__init__()
        self._service, self.topic, self._body = service, topic, body
        self.promised: list[int] = []
        self.in_doubt: set[int] = set()
        self.refused: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self._stop_it = threading.Event()

    def run(self) -> None:
        n = 0
        with self._service.client() as http:
            while not self._stop_it.is_set():
                self.send(http, n)
                n += 1
                time.sleep(0.002)

    def send(self, http: httpx.Client, n: int) -> None:
        message = {"namespace": NAMESPACE, "topic": self.topic, "body": [n, self._body]}
        try:
            answer = http.post("/enqueue", json=message)
        except httpx.TransportError:
            self.in_doubt.add(n)
            time.sleep(0.05)
            return
        if answer.status_code == 202:
            self.promised.append(n)
        elif answer.status_code == 503 and answer.headers.get("retry-after"):
            problem = answer.json()
            self.refused.append(problem)
            if problem["in_doubt"]:
                assert problem["ids"][0]
                self.in_doubt.add(n)
            time.sleep(0.02)
        else:
            self.problems.append(f"{answer.status_code} {answer.text[:200]}")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_it.set()
        self.join()

    def verdict(self) -> None:
        """All that was promised comes once and in order; of the rest nothing twice."""
        assert self.promised
        assert not self.problems, self.problems[:5]
        found: list[int] = []
        deadline = time.monotonic() + 30
        with self._service.client() as http:
            while not (set(self.promised) <= set(found)) and time.monotonic() < deadline:
                found += drain(http, self.topic)
            time.sleep(1)
            found += drain(http, self.topic)
        assert len(found) == len(set(found)), f"twice: {sorted(n for n in found if found.count(n) > 1)[:5]}"
        lost = set(self.promised) - set(found)
        assert not lost, f"{len(lost)} lost of {len(self.promised)}: {sorted(lost)[:5]}"
        assert set(found) - set(self.promised) <= self.in_doubt
        in_order = [n for n in found if n in set(self.promised)]
        assert in_order == self.promised


def drain(http: httpx.Client, topic: str) -> list[int]:
    wanted = {"namespace": NAMESPACE, "topic": topic, "limit": 100, "wait_ms": 500, "visibility_ms": 600_000}
    answer = http.post("/dequeue", json=wanted)
    if answer.status_code != 200 or not answer.json():
        return []
    found = answer.json()
    assert http.post("/ack", json=found).status_code == 200
    return [message["body"][0] for message in found if message["body"] != "warm"]


# One of our processes, killed or stopped between two steps.


class Steps:
    """API and daemons as processes of their own, on fresh databases; each may be one that stops at a point."""

    def __init__(self, folder: Path, prefix: str) -> None:
        number = 56 + worker_number() % 8
        self._folder, self._hold = folder, folder / "hold"
        self._env = running().environment(prefix, number) | {"WAL_DIR": str(folder / "wal")}
        self._services: list[Service] = []
        self.redis = redis.Redis.from_url(running().redis_url(number))
        self.redis.flushdb()

    def start(self, what: str, point: str = "") -> Service:
        command = [sys.executable, "-m", "launch", "only", what]
        if point:
            command = [sys.executable, "-m", "tests.faults.halting", point, str(self._hold), what]
        data = self._folder / f"{what}-{len(self._services)}"
        ready = data / "run" / "daemons.ready"  # where the launcher, too, lets them say so
        service = Service(data, self._env | {"MQUEUE_READY_FILE": str(ready)}, command)
        self._services.append(service.start(wait=False))
        service.until(service.is_ready if what == "api" else ready.exists, START_S, f"{what} is ready")
        return service

    def hold(self) -> None:
        """Whoever comes to its point next stops there."""
        self._hold.touch()

    def until_held(self, service: Service) -> None:
        service.until(self._hold.with_name("hold.hit").exists, 10, "it has stopped at its point")

    def let_go(self) -> None:
        self._hold.with_name("hold.hit").unlink()

    def kill(self, service: Service) -> None:
        assert service.process
        for process in [*psutil.Process(service.process.pid).children(recursive=True), service.process]:
            process.kill()
        service.process.wait()

    def end(self) -> None:
        for service in self._services:
            service.end()
        self.redis.flushdb()
        self.redis.close()


@pytest.fixture
def steps(folder: Path, fresh_databases: str) -> Iterator[Steps]:
    steps = Steps(folder, fresh_databases)
    yield steps
    steps.end()


def send(producer: Producer, service: Service, *numbers: int) -> None:
    producer._service = service
    with service.client() as http:
        for n in numbers:
            producer.send(http, n)


@pytest.mark.parametrize("point", ["before the write", "before the sync", "after the sync", "after the push"])
@pytest.mark.parametrize("redis_forgets", [False, True])
def test_an_api_that_is_killed_between_two_steps_takes_nothing_with_it(
    steps: Steps, point: str, redis_forgets: bool
) -> None:
    api = steps.start("api", point)
    make_buffered(api, "t")
    producer = Producer(api, "t")
    send(producer, api, *range(10))
    steps.hold()
    sending = threading.Thread(target=send, args=(producer, api, 10))
    sending.start()
    steps.until_held(api)
    steps.kill(api)
    sending.join()
    assert producer.in_doubt == {10}
    if redis_forgets:
        steps.redis.flushdb()
    api = steps.start("api")
    if redis_forgets:  # what the dead has left is pushed first: a new process knows no order between itself and it
        api.until(lambda: steps.redis.hgetall(keys.pushed(0)) or steps.redis.hgetall(keys.pushed(1)), 10, "inherited")
    send(producer, api, *range(11, 20))
    steps.start("daemons")
    producer.verdict()
    wal = Path(steps._env["WAL_DIR"]) / "writers"
    api.until(lambda: len(list(wal.iterdir())) == 1, 5, "the log of the dead is removed")


FLUSH = ["before the commit", "in the transaction", "after the commit", "after the trim"]


@pytest.mark.parametrize("point", FLUSH)
def test_a_flusher_that_is_killed_between_two_steps_commits_nothing_twice(steps: Steps, point: str) -> None:
    api, daemons = steps.start("api"), steps.start("daemons", point)
    make_buffered(api, "t")
    producer = Producer(api, "t")
    send(producer, api, *range(10))
    steps.hold()
    send(producer, api, *range(10, 20))
    steps.until_held(daemons)
    steps.kill(daemons)
    send(producer, api, *range(20, 30))
    steps.start("daemons")
    assert len(producer.promised) == 30
    producer.verdict()


@pytest.mark.parametrize("point", FLUSH)
def test_a_flusher_that_wakes_after_its_successor_has_worked_does_no_harm(steps: Steps, point: str) -> None:
    api, daemons = steps.start("api"), steps.start("daemons", point)
    make_buffered(api, "t")
    producer = Producer(api, "t")
    send(producer, api, *range(10))
    steps.hold()
    send(producer, api, *range(10, 20))
    steps.until_held(daemons)
    steps.start("daemons")
    send(producer, api, *range(20, 30))
    api.until(lambda: not steps.redis.xlen(keys.buffer(0)) + steps.redis.xlen(keys.buffer(1)), 20, "it is flushed")
    steps.let_go()
    send(producer, api, *range(30, 40))
    assert len(producer.promised) == 40
    producer.verdict()


def test_what_redis_forgets_between_push_and_flush_comes(steps: Steps) -> None:
    api = steps.start("api")
    make_buffered(api, "t")
    producer = Producer(api, "t")
    send(producer, api, *range(10))
    steps.redis.flushdb()
    send(producer, api, *range(10, 20))
    steps.redis.flushdb()
    steps.start("daemons")
    assert len(producer.promised) == 20
    producer.verdict()


def test_a_damaged_segment_is_set_aside_told_and_recovered(steps: Steps) -> None:
    api = steps.start("api")
    make_buffered(api, "t")
    producer = Producer(api, "t")
    send(producer, api, *range(10))
    steps.kill(api)
    steps.redis.flushdb()
    wal = Path(steps._env["WAL_DIR"])
    (path,) = wal.glob("writers/*/*/*.wal")
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])  # its header: nothing in it is believed
    api = steps.start("api")
    steps.start("daemons")
    api.until(lambda: httpx.get(f"{api.url}/health").json()["status"] == "degraded", 5, "it is told")
    assert "set aside" in httpx.get(f"{api.url}/health").json()["wal"]["detail"]
    assert "set aside" in api.output()
    (aside,) = wal.glob("quarantine/*.wal")
    assert "header is damaged" in wal_command(api, "list").stdout
    assert wal_command(api, "recover", str(aside)).returncode == 1
    aside.write_bytes(whole)  # mended
    assert "nothing is wrong" in wal_command(api, "verify", str(aside)).stdout
    assert "11 were added" in wal_command(api, "recover", str(aside)).stdout  # the warm one, too
    assert "0 were added, 11 were there already" in wal_command(api, "recover", str(aside)).stdout
    aside.unlink()
    assert httpx.get(f"{api.url}/health").json()["status"] == "OK"
    producer._service = api
    producer.verdict()


def wal_command(service: Service, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "manage.py"), "wal", *arguments]
    return subprocess.run(command, env=service.env, capture_output=True, text=True)


# The servers, killed under traffic.


@pytest.fixture
def service(folder: Path) -> Iterator[Service]:
    service = Service(folder / "data", {"MQUEUE_SHARDS": "1", "WAL_MAX_MB": "4"})
    try:
        yield service.start()
    finally:
        service.end()


def kill(service: Service, name: str) -> None:
    service.until(lambda: psutil.pid_exists(service.pid_of(name)), 10, f"{name} runs again after the last time")
    os.kill(service.pid_of(name), signal.SIGKILL)


def kill_workers(service: Service) -> None:
    for child in psutil.Process(service.pid_of("api")).children():
        child.kill()


def flush_all(service: Service) -> None:
    conf = read({"MQUEUE_DATA": str(service.data), "JWT_SECRET": "x" * 40})
    with redis.Redis.from_url(conf.redis.url) as client:
        client.flushall()


FAULTS: dict[str, Callable[[Service], None]] = {
    "the API": kill_workers,
    "the daemons": lambda service: kill(service, "daemons"),
    "Redis": lambda service: kill(service, "valkey"),
    "PostgreSQL": lambda service: kill(service, "postgres"),
    "FLUSHALL": flush_all,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_under_traffic_nothing_that_is_killed_loses_or_doubles_a_message(service: Service, fault: str) -> None:
    make_buffered(service, "a", "b")
    with Producer(service, "a") as first, Producer(service, "b") as second:
        for _ in range(3):
            before = len(first.promised)
            service.until(lambda before=before: len(first.promised) > before + 50, 20, "traffic flows")
            FAULTS[fault](service)
            time.sleep(1)
        before = len(first.promised)
        service.until(lambda before=before: len(first.promised) > before + 50, 20, "traffic flows")
    for producer in (first, second):
        producer.verdict()


def test_a_database_that_is_down_is_not_felt_until_the_log_is_full_and_all_comes_when_it_is_back(
    service: Service,
) -> None:
    make_buffered(service, "a")
    with service.client() as http:
        assert http.post("/enqueue", json={"namespace": NAMESPACE, "topic": "plain", "body": 1}).status_code == 200
    postgres = psutil.Process(service.pid_of("postgres"))
    everyone = [postgres, *postgres.children(recursive=True)]
    for process in everyone:
        process.suspend()  # the supervisor would start a killed one again
    try:
        with Producer(service, "a", LARGE) as producer:
            service.until(lambda: producer.refused, 30, "the log is full")
            assert len(producer.promised) > 60  # 4 MiB
            assert producer.refused[0]["code"] == "buffer_full"
            assert "full" in producer.refused[0]["detail"]
            assert producer.refused[0]["ids"] == [None]
            assert not producer.in_doubt
            for process in everyone:
                process.resume()
            before = len(producer.promised)
            service.until(lambda: len(producer.promised) > before + 20, 20, "there is room again")
    finally:
        for process in everyone:
            process.resume()
    producer.verdict()
