"""Each process alone, as Docker or systemd starts it."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.servers import running, worker_number
from tests.service import Service


@pytest.fixture
def alone(fresh_databases: str, tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path / "data", running().environment(fresh_databases, 48 + worker_number()))
    yield service
    service.end()


def only(service: Service, name: str) -> "subprocess.Popen[bytes]":
    service._command = [sys.executable, "-m", "launch", "only", name]
    service.start(wait=False)
    assert service.process
    return service.process


def test_the_api_alone_serves(alone: Service) -> None:
    probe = [sys.executable, "-m", "launch", "probe"]
    assert subprocess.run(probe, env=alone.env).returncode == 1
    process = only(alone, "api")
    alone.until(lambda: subprocess.run(probe, env=alone.env).returncode == 0, 20, "the API is ready")
    assert httpx.get(f"{alone.url}/health").json()["status"] == "OK"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


@pytest.mark.parametrize("name", ["daemons", "celery"])
def test_the_others_alone_say_when_they_are_ready_and_stop_in_order(alone: Service, name: str) -> None:
    process = only(alone, name)
    alone.until((alone.data / "run" / f"{name}.ready").exists, 20, "it is ready")
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert "Traceback" not in alone.output()
