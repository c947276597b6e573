"""Limits that two API workers share, a quota from the environment, and limits by address."""

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest

from tests.acceptance.calls import get, put, settle
from tests.acceptance.test_limits import add, limit, refused
from tests.servers import running, worker_number
from tests.service import Service

WORKERS = 2
NUMBERS = count()
RATE = 2  # requests a second and address


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Two workers on databases of their own, behind a proxy that stands on this machine."""
    servers, number = running(), worker_number()
    prefix = f"l{number}"
    servers.clone(prefix)
    more = {
        "MQUEUE_API_WORKERS": str(WORKERS),
        "NAMESPACE_QUOTAS": "seeded=60",
        "MQUEUE_IP_RATE": str(RATE),
        "MQUEUE_TRUSTED_PROXIES": "127.0.0.0/8",
    }
    data: Path = tmp_path_factory.mktemp("limits") / "data"
    service = Service(data, servers.environment(prefix, 56 + number) | more)
    try:
        yield service.start()
    finally:
        service.end()
        servers.drop(prefix)


def client(service: Service, address: str = "") -> httpx.Client:
    """One of whom the proxy says that it comes from there; without an address, from so many that none is limited."""
    http = service.client()

    def forward(request: httpx.Request) -> None:
        n = next(NUMBERS)
        request.headers["X-Forwarded-For"] = address or f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}"

    http.event_hooks["request"].append(forward)
    return http


def at_once(service: Service, seconds: float, send: Callable[[httpx.Client], int]) -> tuple[int, float]:
    """What so many clients, which both workers serve, get done together, and in how long."""
    found: list[int] = []
    ends = time.monotonic() + seconds

    def go() -> None:
        while time.monotonic() < ends:
            with client(service) as http:  # each connection goes to either worker
                found.extend(send(http) for _ in range(20) if time.monotonic() < ends)

    clients = [threading.Thread(target=go) for _ in range(6)]
    began = time.monotonic()
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    return sum(found), time.monotonic() - began


def added(http: httpx.Client, namespace: str, messages: int) -> int:
    answer = add(http, namespace, messages)
    if answer.status_code == 200:
        return messages
    time.sleep(min(refused(answer), 20) / 1000)
    return 0


@pytest.mark.parametrize(("quota", "messages", "slack"), [(600, 1, 1), (12_000, 25, 40)], ids=["exact", "chunks"])
def test_both_workers_together_admit_the_quota(
    shared: Service, namespace: str, quota: int, messages: int, slack: int
) -> None:
    """At once a tenth of it, and then its rate, to a message below a hundred a second and to 2 % above."""
    with client(shared) as http:
        limit(http, namespace, messages_per_minute=quota)
    found, took = at_once(shared, 3.0, lambda http: added(http, namespace, messages))
    assert found <= quota / 10 + quota / 60 * took + slack
    assert found >= 0.98 * (quota / 10 + quota / 60 * 2.5) - messages


def test_both_workers_together_hold_no_more_leases_than_the_most(shared: Service, namespace: str) -> None:
    with client(shared) as http:
        limit(http, namespace, max_in_flight=25)
        add(http, namespace, 100)

    def lease(http: httpx.Client) -> int:
        answer = http.get("/dequeue", params={"namespace": namespace, "topic": "t", "limit": 4})
        if answer.status_code != 200:
            refused(answer)
        return len(answer.json()) if answer.status_code == 200 else 0

    assert at_once(shared, 1.0, lease)[0] == 25


def test_both_workers_together_store_no_more_than_the_most(shared: Service, namespace: str) -> None:
    with client(shared) as http:
        limit(http, namespace, max_stored=50)
    assert at_once(shared, 1.0, lambda http: added(http, namespace, 3))[0] == 48


def test_a_quota_of_the_environment_acts_until_another_is_set(shared: Service) -> None:
    with client(shared) as http:
        assert add(http, "seeded", 6).status_code == 200
        refused(add(http, "seeded"))
        assert http.get("/api/v1/namespaces/seeded/quotas/").json()["messages_per_minute"] == 60
        limit(http, "seeded", messages_per_minute=None)
        for _ in range(12):
            put(http, "seeded")
        limit(http, "seeded", messages_per_minute=10)
        refused([add(http, "seeded") for _ in range(2)][-1])


def asked(http: httpx.Client, requests: int) -> list[int]:
    return [http.get("/stats", params={"namespace": "n"}).status_code for _ in range(requests)]


def test_an_address_sends_no_more_than_its_rate(shared: Service) -> None:
    with client(shared, "192.0.2.1") as one, client(shared, "192.0.2.2") as other:
        answers = [one.get("/stats", params={"namespace": "n"}) for _ in range(RATE + 2)]
        assert [answer.status_code for answer in answers[:RATE]] == [200] * RATE
        wait_ms = refused(answers[-1], "rate_limited")
        assert wait_ms <= 1000 / RATE
        refused(one.get("/api/v1/namespaces/"), "rate_limited")
        assert asked(other, RATE) == [200] * RATE
        assert one.get("/health").status_code == 200
        time.sleep(wait_ms / 1000 + 1 / RATE)
        assert asked(one, 1) == [200]


@pytest.mark.parametrize(
    ("first", "second", "are_one"),
    [
        ("192.0.2.10", "198.51.100.7, 192.0.2.10", True),  # whatever it claims itself
        ("192.0.2.11", "192.0.2.11, 127.0.0.9", True),  # two proxies, both trusted
        ("192.0.2.12", "192.0.2.12, 203.0.113.9", False),  # a proxy that nobody trusts
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
    ],
)
def test_an_address_is_what_the_last_trusted_proxy_saw(shared: Service, first: str, second: str, are_one: bool) -> None:
    with client(shared, first) as one, client(shared, second) as other:
        asked(one, RATE)
        assert (asked(other, 1) == [429]) is are_one


def test_the_limits_of_one_namespace_are_not_anothers(shared: Service, namespace: str) -> None:
    with client(shared) as http:
        limit(http, namespace, messages_per_minute=10)
        put(http, namespace)
        refused(add(http, namespace))
        put(http, f"{namespace}-2")


def test_a_flood_keeps_its_neighbour_waiting_for_no_long(shared: Service, namespace: str) -> None:
    """Eight connections send batches as fast as they are answered; a neighbour's messages go through beside them."""
    flood = [{"namespace": f"{namespace[:50]}-flood", "topic": "t", "body": "x" * 200}] * 1_000
    is_over = threading.Event()

    def send() -> None:
        with client(shared) as http:
            while not is_over.is_set():
                assert http.post("/enqueue", json=flood).status_code == 200

    senders = [threading.Thread(target=send) for _ in range(8)]
    took: list[float] = []
    with client(shared) as http:
        put(http, namespace)
        for sender in senders:
            sender.start()
        ends = time.monotonic() + 5
        try:
            while time.monotonic() < ends:
                began = time.monotonic()
                put(http, namespace)
                (found,) = get(http, namespace)
                settle(http, "ack", found)
                took.append(time.monotonic() - began)
        finally:
            is_over.set()
            for sender in senders:
                sender.join()
    assert statistics.median(took) < 1.0, took
