"""Producers and consumers over HTTP, who write down what they were told, and a verdict on it."""

import random
import secrets
import threading
import time
from typing import Any, Self

import httpx

from tests.service import Service

NAMESPACE = "traffic"


class Traffic:
    """Runs in threads until it is stopped; then `verdict` drains what is left and compares."""

    def __init__(self, service: Service, topics: int = 3, seed: int = 1, visibility_ms: int = 2_000) -> None:
        self._visibility_ms = visibility_ms
        self._service, self._topics, self._rng = service, [f"t{n}" for n in range(topics)], random.Random(seed)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.promised: set[int] = set()
        self._perhaps: set[str] = set()  # bodies that were sent, and may have been added
        self.acked: set[int] = set()
        self._unanswered: set[int] = set()  # acks whose answer was lost: they may have settled
        self.delivered: dict[int, str] = {}  # id: body
        self.again: set[int] = set()  # delivered more than once
        self.refused = 0  # answers 503
        self.problems: list[str] = []
        self.slowest_s = 0.0
        self._threads = [threading.Thread(target=work) for work in [self._produce] * 2 + [self._consume] * 3]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def verdict(self) -> None:
        """lost = ∅, unexpected = ∅."""
        assert self.promised, "no traffic at all"
        deadline = time.monotonic() + 20
        with self._service.client() as http:
            while (lost := self.promised - self.acked) and time.monotonic() < deadline:
                for topic in self._topics:
                    self._take_and_ack(http, topic, wait_ms=300)
                self.acked |= {number for number in self._unanswered - self.acked if self._is_acked(http, number)}
        unheard = {number for number, body in self.delivered.items() if body in self._perhaps}
        unexpected = self.delivered.keys() - self.promised - unheard
        assert not self.problems, self.problems[:5]
        assert not lost, f"{len(lost)} lost of {len(self.promised)}: {sorted(lost)[:5]}"
        assert not unexpected

    def _produce(self) -> None:
        with self._service.client() as http:
            while not self._stop.is_set():
                batch = [
                    {
                        "namespace": NAMESPACE,
                        "topic": self._rng.choice(self._topics),
                        "body": secrets.token_hex(8),
                        "priority": self._rng.choice((1, 5, 9)),
                        "delay_ms": self._rng.choice((0, 0, 100)),
                        "max_retries": 1000,
                    }
                    for _ in range(5)
                ]
                answer = self._post(http, "/enqueue", batch)
                with self._lock:
                    if answer is not None and answer.status_code == 200:
                        self.promised.update(answer.json())
                    else:
                        self._perhaps.update(message["body"] for message in batch)
                time.sleep(0.01)

    def _consume(self) -> None:
        with self._service.client() as http:
            while not self._stop.is_set():
                self._take_and_ack(http, self._rng.choice(self._topics), wait_ms=100)

    def _take_and_ack(self, http: httpx.Client, topic: str, wait_ms: int) -> None:
        wanted = {
            "namespace": NAMESPACE,
            "topic": topic,
            "limit": 20,
            "wait_ms": wait_ms,
            "visibility_ms": self._visibility_ms,
        }
        answer = self._post(http, "/dequeue", wanted)
        if answer is None or answer.status_code != 200 or not answer.json():
            return
        found = answer.json()
        with self._lock:
            self.again.update(message["id"] for message in found if message["id"] in self.delivered)
            self.delivered.update({message["id"]: message["body"] for message in found})
        settled = self._post(http, "/ack", found)
        if settled is None:
            with self._lock:
                self._unanswered.update(message["id"] for message in found)
        if settled is not None and settled.status_code == 200:
            with self._lock:
                self.acked.update(one["id"] for one in settled.json() if one.get("state") == "acked")

    def _is_acked(self, http: httpx.Client, number: int) -> bool:
        paths = (f"/messages/{number}?namespace={NAMESPACE}&topic={topic}" for topic in self._topics)
        return any(http.get(path).json().get("state") == "acked" for path in paths)

    def _post(self, http: httpx.Client, path: str, body: Any) -> httpx.Response | None:
        began = time.monotonic()
        try:
            answer = http.post(path, json=body)
        except httpx.TransportError:
            time.sleep(0.05)  # the API itself was killed
            return None
        with self._lock:
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            self.refused += answer.status_code == 503
            if answer.status_code not in (200, 503):
                self.problems.append(f"{path}: {answer.status_code} {answer.text[:200]}")
        return answer
