"""Redis vanishes, hangs, forgets and comes back old; daemons are killed, doubled and stopped. Nothing is lost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis

from mqueue.core.conf import ROOT, read
from mqueue.hot import keys
from tests.faults.traffic import Traffic
from tests.service import Service

pytestmark = pytest.mark.fault


@pytest.fixture
def service(folder: Path) -> Iterator[Service]:
    """With servers of its own, that may be killed."""
    service = Service(folder / "data")
    try:
        yield service.start()
    finally:
        service.end()


def client_of(service: Service) -> "redis.Redis":
    conf = read({"MQUEUE_DATA": str(service.data), "JWT_SECRET": "x" * 40})
    return redis.Redis.from_url(conf.redis.url, decode_responses=True)


def health(service: Service) -> str:
    with service.client() as http:
        answer = http.get("/health")
        assert answer.status_code == 200, answer.text
        return str(answer.json()["status"])


def is_hot(service: Service) -> bool:
    """Some topic has a complete head."""
    client = client_of(service)
    try:
        heads = list(client.scan_iter(match="mq:*:t:*"))
        return any(client.hget(head, "bound") for head in heads)
    except redis.RedisError:
        return False


def test_a_redis_that_hangs_slows_and_stops_nothing(service: Service) -> None:
    with Traffic(service) as traffic:
        service.until(lambda: is_hot(service), 10, "the topics are hot")
        valkey = psutil.Process(service.pid_of("valkey"))
        valkey.suspend()
        try:
            time.sleep(0.5)
            before = len(traffic.acked)
            time.sleep(2)
            assert len(traffic.acked) > before + 20, "work goes on without Redis"
            assert health(service) == "degraded"
        finally:
            valkey.resume()
        service.until(lambda: health(service) == "OK", 5, "it is well again")
        time.sleep(1)
    traffic.verdict()
    assert traffic.slowest_s < 5


def test_a_killed_redis_loses_no_message(service: Service) -> None:
    with Traffic(service) as traffic:
        for _ in range(3):
            service.until(lambda: is_hot(service), 10, "the topics are hot")
            os.kill(service.pid_of("valkey"), signal.SIGKILL)
            time.sleep(1)
    traffic.verdict()


def test_flushall_loses_no_message_and_delivery_goes_on(service: Service) -> None:
    with Traffic(service) as traffic:
        for _ in range(5):
            service.until(lambda: is_hot(service), 10, "the topics are hot")
            client_of(service).flushall()
            before = len(traffic.acked)
            service.until(lambda before=before: len(traffic.acked) > before, 5, "delivery goes on")
    traffic.verdict()


def test_sets_from_an_old_file_are_not_believed_for_long(service: Service) -> None:
    with Traffic(service) as traffic:
        service.until(lambda: is_hot(service), 10, "the topics are hot")
        client = client_of(service)
        client.execute_command("CONFIG", "SET", "appendonly", "no")
        client.save()  # what it will come back with
        time.sleep(1)
        old = client.get(keys.generation(0))
        os.kill(service.pid_of("valkey"), signal.SIGKILL)
        service.until(lambda: is_hot(service) and client_of(service).get(keys.generation(0)) != old, 10, "a new one")
    traffic.verdict()


def test_daemons_may_be_killed_stopped_and_doubled(service: Service, tmp_path: Path) -> None:
    command, ready = [sys.executable, str(ROOT / "manage.py"), "daemon", "all"], tmp_path / "ready"
    with Traffic(service) as traffic:
        env = service.env | {"MQUEUE_READY_FILE": str(ready)}
        second = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
        service.until(ready.exists, 30, "the second daemons are there")
        service.until(lambda: is_hot(service), 10, "the topics are hot")
        os.kill(service.pid_of("daemons"), signal.SIGKILL)
        time.sleep(1.5)
        second.send_signal(signal.SIGSTOP)  # in whatever it is doing; it wakes after others have taken over
        time.sleep(4)
        before = len(traffic.acked)
        service.until(lambda: len(traffic.acked) > before + 50, 5, "delivery goes on")
        second.send_signal(signal.SIGCONT)
        time.sleep(1)
        second.terminate()
        assert second.wait(20) == 0
    traffic.verdict()


def test_an_api_that_is_killed_takes_nothing_with_it(service: Service) -> None:
    with Traffic(service) as traffic:
        for _ in range(3):
            service.until(lambda: is_hot(service), 10, "the topics are hot")
            for child in psutil.Process(service.pid_of("api")).children():
                child.kill()
            time.sleep(1.5)
    traffic.verdict()
