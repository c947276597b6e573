"""Live traffic beside a run: one message at a time through the API, and how long each round trip took."""

import http.client
import json
import threading
import time
from typing import Self

from bench.service import Service


class Live:
    """Enqueue, dequeue, ack, again and again; a context."""

    def __init__(self, service: Service) -> None:
        self._service, self._stop = service, threading.Event()
        self.seconds: list[float] = []
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._service.conf.api.port)
        headers = {"Authorization": f"Bearer {self._service.token}", "Content-Type": "application/json"}

        def ask(method: str, path: str, body: object = None) -> str:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            return connection.getresponse().read().decode()

        while not self._stop.is_set():
            began = time.perf_counter()
            ask("POST", "/enqueue", {"namespace": "live", "topic": "t", "body": 1})
            ask("POST", "/ack", json.loads(ask("GET", "/dequeue?namespace=live&topic=t")))
            self.seconds.append(time.perf_counter() - began)
            time.sleep(0.005)


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(0.99 * len(seconds))]
