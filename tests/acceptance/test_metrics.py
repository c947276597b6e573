"""/metrics, over HTTP against real processes."""

import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.acceptance.calls import get, is_problem, once, put, settle
from tests.acceptance.scrape import Scrape, scrape
from tests.servers import running, worker_number
from tests.service import Service, free_port

FRESH_S = 1.1  # a scrape may be a second old


def counts(found: Scrape, namespace: str, *verbs: str) -> list[float | None]:
    return [found.get(f"mqueue_{verb}_total", namespace=namespace, topic="t") for verb in verbs]


@once
def test_every_verb_is_counted(service: Service, http: httpx.Client, namespace: str) -> None:
    http.post("/enqueue", json=[{"namespace": namespace, "topic": "t", "body": n} for n in range(5)])
    first, second, third, *_ = get(http, namespace, limit=4)
    settle(http, "ack", first)
    settle(http, "ack", first)
    settle(http, "nack", second, delay_ms=60_000)
    settle(http, "nack", third, dead=True)
    time.sleep(FRESH_S)
    found = scrape(service)
    verbs = ("enqueue", "dequeue", "ack", "nack", "redelivery")
    assert counts(found, namespace, *verbs) == [5, 4, 1, 2, 1]
    assert found.get("mqueue_dead_letter_total", namespace=namespace, topic="t", reason="rejected") == 1
    gauges = ("ready_queue_depth", "scheduled", "in_flight", "dead_letters")
    assert [found.get(f"mqueue_{name}", namespace=namespace) for name in gauges] == [1, 1, 1, 1]
    age = found.get("mqueue_oldest_ready_age_seconds", namespace=namespace)
    assert age
    assert 1 < age < 10


@once
def test_a_message_that_was_there_already_is_not_counted_twice(
    service: Service, http: httpx.Client, namespace: str
) -> None:
    for _ in range(3):
        put(http, namespace, idempotency_key="k")
    time.sleep(FRESH_S)
    assert counts(scrape(service), namespace, "enqueue") == [1]


@once
def test_what_the_lease_daemon_does_is_counted_too(service: Service, http: httpx.Client, namespace: str) -> None:
    put(http, namespace, max_retries=1)
    put(http, namespace, "old", ttl_ms=200)
    for _ in range(2):
        assert get(http, namespace, visibility_ms=1000, wait_ms=5000)
    service.until(lambda: http.get("/dlq", params={"namespace": namespace, "topic": "t"}).json(), 5, "it is dead")
    time.sleep(FRESH_S)
    found = scrape(service)
    assert counts(found, namespace, "redelivery") == [1]
    assert found.get("mqueue_dead_letter_total", namespace=namespace, topic="t", reason="max_retries") == 1
    assert found.get("mqueue_dead_letter_total", namespace=namespace, topic="old", reason="expired") == 1
    assert found.get("mqueue_ready_queue_depth", namespace=namespace, topic="t") == 0


@once
def test_the_histograms_have_what_took_time(service: Service, http: httpx.Client, namespace: str) -> None:
    time.sleep(FRESH_S)
    before = scrape(service)
    put(http, namespace)
    time.sleep(FRESH_S)
    settle(http, "ack", get(http, namespace)[0])
    time.sleep(FRESH_S)
    after = scrape(service)

    def grown(name: str, **labels: str) -> float:
        return (after.get(name, **labels) or 0) - (before.get(name, **labels) or 0)

    for name in ("dequeue", "end_to_end"):
        assert grown(f"mqueue_{name}_seconds_count") == 1
    assert FRESH_S < grown("mqueue_end_to_end_seconds_sum") < FRESH_S + 3
    assert sum(grown(f"mqueue_{name}_seconds_count", shard=n) for name in ("commit", "claim") for n in "01") >= 2
    assert grown("mqueue_coalesced_batch_size_count", coalescer="line") >= 1


@once
def test_everything_is_healthy_and_counted(service: Service) -> None:
    found = scrape(service)
    assert [found.get("mqueue_shard_health", shard=name) for name in ("0", "1", "control", "redis")] == [1] * 4
    assert [found.get("mqueue_processes", service=name) for name in ("api", "daemons", "celery")] == [1] * 3
    assert [found.get("mqueue_buffer_queue_depth", shard=name) for name in "01"] == [0, 0]
    service.until(lambda: scrape(service).get("mqueue_daemon_rounds_total", daemon="leases of shard 0"), 5, "a round")


@once
def test_both_ports_show_the_same_numbers_and_djangos(service: Service, http: httpx.Client, namespace: str) -> None:
    assert httpx.get(f"{service.url}/api/schema/").status_code == 200
    put(http, namespace)
    time.sleep(FRESH_S)
    answer = http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    ours, theirs = Scrape(answer.text), scrape(service)
    assert counts(ours, namespace, "enqueue") == counts(theirs, namespace, "enqueue") == [1]
    assert ours.names() == theirs.names()
    assert theirs.get("django_http_requests_before_middlewares_total")


def test_the_apis_metrics_want_the_scope_admin(service: Service) -> None:
    is_problem(httpx.get(f"{service.url}/metrics"), 401, "unauthenticated")
    refused = (["enqueue", "dequeue", "dlq"], ["acme:admin"], ["acme:*"])
    for scopes in refused:
        with service.client(scopes=scopes) as http:
            is_problem(http.get("/metrics"), 403, "forbidden")
    with service.client(namespaces=["acme"], scopes=["*"]) as http:
        is_problem(http.get("/metrics"), 403, "forbidden")  # a tenant may do anything, but in his namespace
    for namespaces, scopes in ((["acme"], ["admin"]), (["*"], ["*"])):
        with service.client(namespaces=namespaces, scopes=scopes) as http:
            assert http.get("/metrics").status_code == 200
            assert http.head("/metrics").content == b""
            is_problem(http.post("/metrics"), 405, "method_not_allowed")


@once
def test_an_admin_of_some_namespaces_sees_no_others(service: Service, http: httpx.Client, namespace: str) -> None:
    foreign = f"{namespace[:50]}-foreign"
    for name in (namespace, foreign):
        put(http, name)
    time.sleep(FRESH_S)
    with service.client(namespaces=[namespace], scopes=["admin"]) as his:
        text = his.get("/metrics").text
    found = Scrape(text)
    assert counts(found, namespace, "enqueue") == [1]
    assert foreign not in text
    assert set(re.findall(r'namespace="([^"]*)"', text)) == {namespace}
    assert "mqueue_shard_health{" in text
    assert foreign in http.get("/metrics").text


@once
def test_the_metrics_port_listens_on_loopback_and_serves_nothing_else(service: Service) -> None:
    (listening,) = {
        connection.laddr
        for process in service.descendants()
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == service.metrics_port
    }
    assert listening.ip == "127.0.0.1"
    base = service.metrics_url.removesuffix("/metrics")
    assert httpx.get(base).status_code == 200
    is_problem(httpx.get(f"{base}/dequeue"), 404, "not_found")
    is_problem(httpx.post(f"{base}/metrics"), 405, "method_not_allowed")


@pytest.fixture
def two_workers(fresh_databases: str, tmp_path: Path) -> Iterator[Service]:
    env = running().environment(fresh_databases, 48 + worker_number()) | {"MQUEUE_API_WORKERS": "2"}
    service = Service(tmp_path / "data", env)
    yield service
    service.end()


def api_workers(service: Service) -> set[int]:
    found = set()
    for child in psutil.Process(service.pid_of("api")).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie too
            if "resource_tracker" not in " ".join(child.cmdline()):
                found.add(child.pid)
    return found


def test_no_count_is_lost_with_a_worker_that_is_killed(two_workers: Service) -> None:
    service = two_workers.start()
    sent = 0

    def send(count: int) -> None:
        nonlocal sent
        for _ in range(count):
            with service.client() as http:  # a connection of its own, so that both workers get some
                put(http, "n")
            sent += 1

    def enqueued() -> float | None:
        return scrape(service).get("mqueue_enqueue_total", namespace="n", topic="t")

    send(40)
    service.until(lambda: enqueued() == 40, 5, "all are counted")
    assert scrape(service).get("mqueue_processes", service="api") == 2
    killed, left = sorted(api_workers(service))
    os.kill(killed, signal.SIGKILL)
    service.until(lambda: api_workers(service) > {left} and killed not in api_workers(service), 20, "it is replaced")
    service.until(lambda: scrape(service).get("mqueue_processes", service="api") == 2, 20, "two count again")
    assert enqueued() == 40
    send(40)
    service.until(lambda: enqueued() == 80, 5, "all are counted")
    assert service.stop() == 0


def test_the_counters_begin_anew_with_the_service(two_workers: Service) -> None:
    service = two_workers.start()
    with service.client() as http:
        put(http, "n")
    assert service.stop() == 0
    service.start()
    assert scrape(service).get("mqueue_enqueue_total", namespace="n") is None
    assert scrape(service).get("mqueue_ready_queue_depth", namespace="n") == 1
    assert service.stop() == 0


def test_a_taken_port_is_named(two_workers: Service) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", two_workers.metrics_port))
        other.listen()
        process = two_workers.start(wait=False).process
        assert process
        assert process.wait(20) == 1
    assert f"port {two_workers.metrics_port} on 127.0.0.1 cannot be used" in two_workers.output()
    assert "set METRICS_PORT" in two_workers.output()
    assert "Traceback" not in two_workers.output()


def test_another_port_can_be_set(two_workers: Service) -> None:
    port = free_port()
    two_workers.env["METRICS_PORT"] = str(port)
    two_workers.start()
    assert httpx.get(f"http://127.0.0.1:{port}/metrics").status_code == 200
    assert two_workers.stop() == 0
