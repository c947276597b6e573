"""The service over TLS, with a client that looks at the certificate, on both ports."""

import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from launch.services import MANAGE
from mqueue.core.conf import ROOT
from tests.certificates import certificate
from tests.servers import running, worker_number
from tests.service import Service


@pytest.fixture
def secure(fresh_databases: str, tmp_path: Path) -> Iterator[Service]:
    certificate(tmp_path, "a")
    tls = {"TLS_CERT_FILE": str(tmp_path / "a.crt"), "TLS_KEY_FILE": str(tmp_path / "a.key")}
    environment = running().environment(fresh_databases, 48 + worker_number())
    service = Service(tmp_path / "data", environment | tls, [sys.executable, "-m", "launch", "run"])
    service.start()
    yield service
    service.end()


def test_both_ports_speak_tls_alone_and_cookies_are_for_tls(secure: Service, tmp_path: Path) -> None:
    trusted = ssl.create_default_context(cafile=str(tmp_path / "a.crt"))
    with httpx.Client(base_url=f"https://localhost:{secure.port}", verify=trusted) as client:
        assert client.get("/health").json()["status"] == "OK"
        page = client.get("/admin/login/")
        assert page.status_code == 200
        assert "max-age=31536000" in page.headers["strict-transport-security"]
        cookies = page.headers.get_list("set-cookie")
        assert cookies
        assert all("Secure" in cookie for cookie in cookies)
        assert client.get("/api/v1/namespaces/").status_code == 401
    with httpx.Client(base_url=f"https://localhost:{secure.metrics_port}", verify=trusted) as client:
        assert "mqueue_shard_health" in client.get("/metrics").text
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"https://localhost:{secure.port}/health")  # who does not know the certificate is not taken in
    for port in (secure.port, secure.metrics_port):
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://localhost:{port}/health")
        assert version_of(port, trusted) == "TLSv1.3"
        assert speaks(port, "tls1_2")
        assert not speaks(port, "tls1_1")


def version_of(port: int, context: ssl.SSLContext) -> str | None:
    with (
        socket.create_connection(("127.0.0.1", port)) as line,
        context.wrap_socket(line, server_hostname="localhost") as wrapped,
    ):
        return wrapped.version()


def speaks(port: int, version: str) -> bool:
    """By a client that is older than ours would be."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", f"-{version}", "-cipher", "ALL:@SECLEVEL=0"]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def test_djangos_check_of_a_deployment_is_clean_with_tls(tmp_path: Path, fresh_databases: str) -> None:
    certificate(tmp_path, "a")
    service = Service(tmp_path / "data", running().environment(fresh_databases, 48 + worker_number()))
    tls = {"TLS_CERT_FILE": str(tmp_path / "a.crt"), "TLS_KEY_FILE": str(tmp_path / "a.key")}
    env = service.env | tls | {"MQUEUE_ALLOWED_HOSTS": "queue.example.com"}
    command = [*MANAGE, "check", "--deploy", "--fail-level", "WARNING"]
    checked = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert re.search(r"no issues \(0 silenced\)", checked.stdout + checked.stderr)
