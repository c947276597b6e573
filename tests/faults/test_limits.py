"""Limits while Redis is away: each process keeps its own share, and nobody is let through twice."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.acceptance.test_limits import add, limit, refused
from tests.acceptance.test_limits_shared import added, at_once
from tests.service import Service

pytestmark = pytest.mark.fault
WORKERS = 2


@pytest.fixture
def service(folder: Path) -> Iterator[Service]:
    """With servers of its own, that may be killed."""
    service = Service(folder / "data", {"MQUEUE_API_WORKERS": str(WORKERS)})
    try:
        yield service.start()
    finally:
        service.end()


def test_a_redis_that_hangs_lifts_no_limit(service: Service) -> None:
    """Whatever happens, no more than the burst and the rate since the first message."""
    with service.client() as http:
        limit(http, "n", messages_per_minute=6_000, max_stored=100_000, max_in_flight=5)
    began = time.monotonic()
    total, _ = at_once(service, 2.0, lambda http: added(http, "n", 5))
    assert total > 500
    valkey = psutil.Process(service.pid_of("valkey"))
    valkey.suspend()
    try:
        time.sleep(0.5)
        found, took = at_once(service, 6.0, lambda http: added(http, "n", 1))
        assert 30 * took <= found <= 100 * took + 5
        with service.client() as http:
            leased = http.get("/dequeue", params={"namespace": "n", "topic": "t", "limit": 100})
            assert 1 <= len(leased.json()) <= 5
    finally:
        valkey.resume()
    total += found
    time.sleep(1)
    found, took = at_once(service, 2.0, lambda http: added(http, "n", 5))
    assert found > 100
    assert total + found <= 600 + 100 * (time.monotonic() - began) + 10


def test_a_redis_that_was_killed_gives_no_second_burst(service: Service) -> None:
    with service.client() as http:
        limit(http, "n", messages_per_minute=600)
        assert add(http, "n", 60).status_code == 200
        time.sleep(1.1)  # it writes once a second
        os.kill(service.pid_of("valkey"), signal.SIGKILL)
        service.until(lambda: http.get("/health").json()["status"] == "OK", 10, "Redis is back")
        refused(add(http, "n", 60))
