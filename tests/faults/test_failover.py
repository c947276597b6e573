"""Redis through Sentinel: its master dies or falls silent, another takes over, and delivery goes on."""

import signal
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.sentinels import Sentinels
from tests.faults.test_buffered import Producer, make_buffered
from tests.faults.traffic import Traffic
from tests.service import Service

pytestmark = [pytest.mark.fault, pytest.mark.timeout(180)]


@pytest.fixture(params=[1, 3])
def sentinels(request: pytest.FixtureRequest, folder: Path) -> Iterator[Sentinels]:
    with Sentinels(folder, request.param) as sentinels:
        deadline = time.monotonic() + 20
        while not sentinels.is_ready():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield sentinels


@pytest.fixture
def service(folder: Path, sentinels: Sentinels) -> Iterator[Service]:
    service = Service(folder / "data", sentinels.env)
    try:
        yield service.start()
    finally:
        service.end()


def is_well(service: Service) -> bool:
    with service.client() as http:
        return bool(http.get("/health").json()["status"] == "OK")


def wake_up_ms(service: Service, tries: int = 9) -> float:
    """How long after its enqueue a consumer that waits has a message, in the middle."""
    took = []
    with service.client() as producer, service.client() as consumer:
        for _ in range(tries):
            got = threading.Event()

            def wait(got: threading.Event = got) -> None:
                answer = consumer.get("/dequeue?namespace=default&topic=wakes&wait_ms=5000")
                assert len(answer.json()) == 1, answer.text
                got.set()

            thread = threading.Thread(target=wait)
            thread.start()
            time.sleep(0.3)
            began = time.monotonic()
            producer.post("/enqueue", json={"namespace": "default", "topic": "wakes", "body": 1})
            assert got.wait(6)
            took.append((time.monotonic() - began) * 1000)
            thread.join()
    return statistics.median(took)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_failover_loses_no_message_and_delivery_goes_on(
    service: Service, sentinels: Sentinels, number: signal.Signals
) -> None:
    assert wake_up_ms(service) < 200
    before = sentinels.master()
    make_buffered(service, "failover")
    with Producer(service, "failover") as producer, Traffic(service) as traffic:
        time.sleep(2)
        began = time.monotonic()
        sentinels.servers[0].send_signal(number)
        acked = len(traffic.acked)
        service.until(lambda: len(traffic.acked) > acked + 20, 5, "delivery goes on")
        service.until(lambda: sentinels.master() not in (0, before), 20, "another is the master")
        service.until(lambda: is_well(service), 10, "it is well again")
        print(f"well {time.monotonic() - began:.1f} s after the master's end; slowest call {traffic.slowest_s:.1f} s")
        time.sleep(5)  # the ear has noticed by then
        sentinels.servers[0].send_signal(signal.SIGCONT)
        taken = len(producer.promised)
        service.until(lambda: len(producer.promised) > taken, 10, "buffered topics take messages again")
        time.sleep(1)
    traffic.verdict()
    producer.verdict()
    assert traffic.slowest_s < 5
    assert wake_up_ms(service) < 200, "nobody hears of arrivals"


@pytest.mark.parametrize("sentinels", [1], indirect=True)
def test_a_sentinel_that_is_silent_holds_nobody_up(sentinels: Sentinels, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent:
        env = sentinels.env | {
            "REDIS_SENTINELS": f"127.0.0.1:{silent.getsockname()[1]},{sentinels.env['REDIS_SENTINELS']}"
        }
        service = Service(folder / "data", env)
        try:
            service.start()
            slowest = 0.0
            with service.client() as http:
                for _ in range(20):
                    began = time.monotonic()
                    assert (
                        http.post("/enqueue", json={"namespace": "default", "topic": "t", "body": 1}).status_code == 200
                    )
                    assert http.get("/dequeue?namespace=default&topic=t").status_code == 200
                    slowest = max(slowest, time.monotonic() - began)
            service.until(lambda: is_well(service), 10, "it is well")
            assert slowest < 2
        finally:
            service.end()
