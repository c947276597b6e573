"""`make run` from nothing, and what happens when its processes are killed, doubled or find leftovers."""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from mqueue.core.conf import read
from tests.certificates import certificate
from tests.service import Service

pytestmark = pytest.mark.fault
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to play another user")


@pytest.fixture
def service(folder: Path) -> Iterator[Service]:
    service = Service(folder / "data")
    yield service
    service.end()


def put(service: Service, topic: str = "t") -> int:
    with service.client() as http:
        answer = http.post("/enqueue", json={"namespace": "default", "topic": topic, "body": 1})
        assert answer.status_code == 200, answer.text
        return int(answer.json()[0])


def take(service: Service, topic: str = "t") -> list[int]:
    with service.client() as http:
        answer = http.get("/dequeue", params={"namespace": "default", "topic": topic, "limit": 100})
        assert answer.status_code == 200, answer.text
        return [message["id"] for message in answer.json()]


def is_well(service: Service) -> bool:
    try:
        return bool(httpx.get(f"{service.url}/health", timeout=5).json()["status"] == "OK")
    except httpx.HTTPError:
        return False


def test_a_first_start_a_stop_and_a_second_start(service: Service) -> None:
    service.start()
    sent = put(service)
    assert service.stop(signal.SIGINT) == 0
    assert service.descendants() == []
    assert list((service.data / "run").glob("*.json")) == []
    began = time.monotonic()
    service.start()
    assert time.monotonic() - began < 15  # measured 4 s; the bound leaves room for a busy machine
    assert take(service) == [sent]
    assert service.stop(signal.SIGTERM) == 0
    assert service.descendants() == []


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    path = Path(tempfile.mkdtemp(prefix="mqueue-run-"))
    path.chmod(0o755)
    service = Service(path / "data")
    try:
        yield service.start()
    finally:
        service.end()
        shutil.rmtree(path, ignore_errors=True)


@pytest.mark.parametrize("name", ["postgres", "valkey", "api", "daemons", "celery", "metrics"])
def test_whatever_is_killed_comes_back(running: Service, name: str) -> None:
    running.until(lambda: is_well(running), 10, "everything is well")
    sent, before = put(running, name), running.pid_of(name)
    os.sync()  # PostgreSQL begins by writing out what anybody has written to that disk, other tests too
    os.kill(before, signal.SIGKILL)
    running.until(lambda: running.pid_of(name) != before, 2, f"{name} was started again")
    again = running.until(lambda: f"{name} is back" in running.output(), 10, f"{name} is ready again")
    if name in ("postgres", "valkey"):
        assert again < 2
    running.until(lambda: is_well(running), 5, "the API answers")
    assert f"{name} (pid {before}) was ended by SIGKILL" in running.output()
    assert take(running, name) == [sent]
    assert not psutil.pid_exists(before)


def test_a_killed_api_leaves_no_worker_on_its_port(running: Service) -> None:
    master = running.pid_of("api")
    workers = {process.pid for process in psutil.Process(master).children(recursive=True)}
    assert workers
    os.kill(master, signal.SIGKILL)
    running.until(lambda: running.pid_of("api") != master, 3, "the API was started again")
    running.until(lambda: not any(psutil.pid_exists(pid) for pid in workers), 3, "its old workers are gone")
    running.until(lambda: is_well(running), 10, "the API answers")


def test_a_killed_api_worker_is_replaced(running: Service) -> None:
    (worker,) = (
        p for p in psutil.Process(running.pid_of("api")).children() if "mqueue.worker" in " ".join(p.cmdline())
    )
    worker.kill()
    running.until(lambda: is_well(running), 10, "the API answers")


def test_a_busy_session_does_not_hold_up_a_killed_postgres(running: Service) -> None:
    conf = read({"MQUEUE_DATA": str(running.data), "JWT_SECRET": "unused"})
    with psycopg.connect(conf.shard_urls[0], autocommit=True) as session:

        def spin() -> None:
            with pytest.raises(psycopg.Error):
                session.execute(SPIN)

        busy = threading.Thread(target=spin)
        busy.start()
        time.sleep(0.5)
        before = running.pid_of("postgres")
        os.kill(before, signal.SIGKILL)
        running.until(lambda: running.pid_of("postgres") != before, 4, "postgres was started again")
        running.until(lambda: is_well(running), 8, "everything is well")
        busy.join()


# Busy with nothing that waits, so that the end of the postmaster is not noticed.
SPIN = "SELECT count(*) FROM generate_series(1, 100000000) a, generate_series(1, 100000) b WHERE a + b = 0"


def test_a_service_whose_log_folder_went_away_is_still_restarted(running: Service) -> None:
    shutil.rmtree(running.data / "log")
    before = running.pid_of("daemons")
    os.kill(before, signal.SIGKILL)
    running.until(lambda: running.pid_of("daemons") != before, 5, "the daemons were started again")


def test_a_second_supervisor_on_the_same_data_is_refused(running: Service) -> None:
    second = Service(running.data).start(wait=False)
    assert second.process
    assert second.process.wait(10) == 1
    assert "already runs" in second.output()
    assert f"kill {running.process.pid if running.process else 0}" in second.output()
    running.until(lambda: is_well(running), 10, "everything is well")


def test_a_taken_port_is_named_with_the_setting_that_changes_it(service: Service) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", service.port))
        taken.listen()
        service.start(wait=False)
        assert service.process
        assert service.process.wait(20) == 1
    assert f"port {service.port} on 127.0.0.1 cannot be used" in service.output()
    assert f"MQUEUE_PORT={service.port + 1}" in service.output()


def test_a_wrong_setting_is_named_without_a_traceback(service: Service) -> None:
    service.env["MQUEUE_POOL_MIN"] = "many"
    service.start(wait=False)
    assert service.process
    assert service.process.wait(20) == 1
    assert "MQUEUE_POOL_MIN is 'many'" in service.output()
    assert "Traceback" not in service.output()


def test_a_killed_supervisor_leaves_nothing_that_blocks_the_next_start(service: Service) -> None:
    service.start()
    sent = put(service)
    assert service.process
    service.process.kill()
    service.process.wait()
    service.start()
    assert take(service) == [sent]
    names = [process.name() for process in service.descendants() if "postgres" in process.name()]
    assert names
    assert service.stop() == 0
    assert service.descendants() == []


def test_everything_killed_at_once_is_swept_up(service: Service) -> None:
    """Also where the kernel sends no signal to orphans: what lives is found by its note, what died leaves no trace."""
    service.start()
    sent = put(service)
    assert service.process
    master = service.pid_of("api")
    workers = psutil.Process(master).children(recursive=True)
    for pid in (service.process.pid, master, service.pid_of("postgres"), service.pid_of("valkey")):
        os.kill(pid, signal.SIGKILL)
    service.process.wait()
    service.start()
    assert not any(worker.is_running() for worker in workers)
    assert take(service) == [sent]


def test_stale_pid_files_and_sockets_do_not_stop_a_start(service: Service) -> None:
    service.start()
    sent = put(service)
    service.stop()
    stranger = str(os.getpid())  # alive, and no PostgreSQL
    state, sockets = service.data / "state", service.data / "sockets"
    (state / "postgres/postmaster.pid").write_text(f"{stranger}\n{state / 'postgres'}\n1\n5432\n{sockets}\n\n1 1\n")
    (sockets / ".s.PGSQL.5432.lock").write_text(f"{stranger}\n")
    for name in (".s.PGSQL.5432", "valkey.sock"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(sockets / name))
    notes = service.data / "run"
    (notes / "api.json").write_text(json.dumps({"pid": os.getpid(), "created": 1.0}))
    (notes / "celery.json").write_text("half a no")
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        (notes / "daemons.json").write_text(json.dumps({"pid": other.pid}))
        service.start()
        assert other.poll() is None, "a stranger was ended for having a number that one of ours once had"
        other.kill()
    assert take(service) == [sent]


def test_an_interrupted_initdb_is_done_again(service: Service) -> None:
    half = service.data / "state/postgres.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18")
    service.start()
    put(service)


def test_a_request_under_way_is_finished_on_sigterm(service: Service) -> None:
    service.start()
    put(service, "warm")
    statuses: list[Any] = []

    def wait_for_nothing() -> None:
        with service.client() as http:
            statuses.append(http.get("/dequeue?namespace=default&topic=empty&wait_ms=2000").status_code)

    thread = threading.Thread(target=wait_for_nothing)
    thread.start()
    time.sleep(0.5)
    assert service.stop() == 0
    thread.join()
    assert statuses == [200]


def test_a_sigterm_that_arrives_twice_still_drains(service: Service) -> None:
    service.start()
    service.until(lambda: is_well(service), 5, "everything is well")
    assert service.process
    service.process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    assert service.stop(signal.SIGTERM) == 0
    assert "killing" not in service.output()
    assert "unexpected postmaster exit" not in (service.data / "log/postgres.log").read_text()


@pytest.mark.parametrize("after_s", [0.6, 1.5, 2.5])
def test_a_stop_in_the_middle_of_the_start_leaves_nothing(service: Service, after_s: float) -> None:
    service.start(wait=False)
    time.sleep(after_s)
    began = time.monotonic()
    service.stop()
    assert time.monotonic() - began < 8
    assert service.descendants() == []


def test_it_speaks_tls(service: Service, folder: Path) -> None:
    certificate(folder, "own")
    service.env |= {"TLS_CERT_FILE": str(folder / "own.crt"), "TLS_KEY_FILE": str(folder / "own.key")}
    service.url = service.url.replace("http:", "https:")
    service.start()
    context = ssl.create_default_context(cafile=str(folder / "own.crt"))
    with httpx.Client(base_url=service.url, verify=context) as http:
        assert http.get("/health").json()["status"] == "OK"
        login = http.get("/admin/login/")
        assert login.status_code == 200
        assert "Secure" in login.headers["set-cookie"]
    assert f"curl -s --cacert {folder / 'own.crt'}" in service.output()


def test_state_of_another_major_version_is_refused_in_words(service: Service) -> None:
    service.start()
    service.stop()
    (service.data / "state/postgres/PG_VERSION").write_text("17\n")
    service.start(wait=False)
    assert service.process
    assert service.process.wait(20) == 1
    assert "was made by PostgreSQL 17" in service.output()


def test_a_long_path_gets_short_sockets(folder: Path) -> None:
    service = Service(folder / ("d" * 120))
    try:
        service.start()
        assert take(service) == []
        assert service.stop() == 0
    finally:
        service.end()
        forget_placed(service.data)


def forget_placed(data: Path) -> None:
    """Remove what was placed outside the data folder."""
    placed = json.loads((data / "embedded.json").read_text())
    for name in ("state", "sockets"):
        if not Path(placed[name]).is_relative_to(data):
            shutil.rmtree(placed[name], ignore_errors=True)


@ROOT_ONLY
def test_it_runs_under_a_folder_that_others_cannot_read_whatever_the_umask(folder: Path) -> None:
    folder.chmod(0o700)
    service = Service(folder / "data", command=["sh", "-c", f"umask 077; exec {sys.executable} -m launch run"])
    try:
        service.start()
        sent = put(service)
        assert psutil.Process(service.pid_of("postgres")).uids().real != 0
        assert service.stop() == 0
        service.start()
        assert take(service) == [sent]
        assert service.stop() == 0
    finally:
        service.end()
        forget_placed(service.data)


def test_reset_deletes_the_data_and_asks_first(service: Service) -> None:
    service.start()
    put(service)
    command = [sys.executable, "-m", "launch", "reset"]
    refused = subprocess.run([*command, "--yes"], env=service.env, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "already runs" in refused.stderr
    service.stop()
    asked = subprocess.run(command, env=service.env, capture_output=True, text=True)
    assert asked.returncode == 1
    assert "YES=1" in asked.stderr
    assert (service.data / "state/postgres").exists()
    done = subprocess.run([*command, "--yes"], env=service.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not service.data.exists()
