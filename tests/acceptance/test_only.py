"""Each process alone, as Docker or systemd starts it."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.certificates import certificate
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


def test_the_metrics_alone_are_served_over_tls_too(alone: Service, tmp_path: Path) -> None:
    certificate(tmp_path, "a")
    alone.env |= {"TLS_CERT_FILE": str(tmp_path / "a.crt"), "TLS_KEY_FILE": str(tmp_path / "a.key")}
    url = alone.metrics_url.replace("http:", "https:")
    process = only(alone, "metrics")

    def found() -> str:
        try:
            return httpx.get(url, verify=False).text
        except httpx.TransportError:
            return ""

    alone.until(lambda: 'mqueue_shard_health{shard="1"} 1.0' in found(), 20, "it answers")
    assert 'mqueue_processes{service="api"} 0.0' in found()
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


@pytest.mark.parametrize("name", ["api", "metrics"])
def test_a_taken_port_is_named_without_a_traceback(alone: Service, name: str) -> None:
    port, setting = {"api": (alone.port, "MQUEUE_PORT"), "metrics": (alone.metrics_port, "METRICS_PORT")}[name]
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        assert only(alone, name).wait(20) == 1
    assert f"set {setting}" in alone.output()
    assert "Traceback" not in alone.output()


@pytest.mark.parametrize("name", ["daemons", "celery"])
def test_the_others_alone_say_when_they_are_ready_and_stop_in_order(alone: Service, name: str) -> None:
    process = only(alone, name)
    alone.until((alone.data / "run" / f"{name}.ready").exists, 20, "it is ready")
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert "Traceback" not in alone.output()
