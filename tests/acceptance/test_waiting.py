"""Consumers that wait, over HTTP against real processes."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import httpx

from tests.acceptance.calls import get, put, settle
from tests.service import Service


def late_s(deliver_after: str) -> float:
    return time.time() - datetime.fromisoformat(deliver_after).timestamp()


def test_whoever_waits_gets_what_comes_due_when_it_does(service: Service, namespace: str) -> None:
    def one_client(n: int) -> list[float]:
        rng, late = random.Random(n), []
        with service.client() as http, service.client() as other:
            put(http, namespace, f"t{n}")
            settle(http, "ack", get(http, namespace, f"t{n}")[0])
            for _ in range(12):
                delay_ms = rng.randint(20, 300)
                with ThreadPoolExecutor(1) as pool:
                    polling = pool.submit(get, http, namespace, f"t{n}", wait_ms=4_000)
                    time.sleep(rng.choice((0, 0.03)))
                    put(other, namespace, f"t{n}", delay_ms=delay_ms)
                    (found,) = polling.result()
                late.append(late_s(found["deliver_after"]))
                settle(http, "ack", found)
        return late

    with ThreadPoolExecutor(4) as pool:
        late = sorted(one for part in pool.map(one_client, range(4)) for one in part)
    assert late[0] > -0.005
    assert late[len(late) // 2] < 0.2, late  # 3 ms, where nothing else goes on
    assert late[-1] < 0.5, late[-5:]


def test_a_backoff_and_a_move_wake_their_consumers(http: httpx.Client, namespace: str) -> None:
    for _ in range(10):
        put(http, namespace)
        (found,) = get(http, namespace)
        due = settle(http, "nack", found, delay_ms=80).json()["next_attempt_at"]
        (again,) = get(http, namespace, wait_ms=4_000)
        assert -0.005 < late_s(due) < 0.5
        settle(http, "ack", again)


def test_the_first_message_of_a_topic_wakes_whoever_waited_for_it(service: Service, namespace: str) -> None:
    with service.client() as http, service.client() as other:
        put(http, namespace, "other")
        for n in range(5):
            with ThreadPoolExecutor(1) as pool:
                polling = pool.submit(get, http, namespace, f"new-{n}", wait_ms=4_000)
                time.sleep(0.15)
                began = time.monotonic()
                put(other, namespace, f"new-{n}")
                assert len(polling.result()) == 1
                assert time.monotonic() - began < 0.5
