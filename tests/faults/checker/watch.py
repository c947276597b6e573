"""Asks /health all the time, and writes down what it says."""

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.faults.checker.times import now

EVERY_S, PATIENCE_S = 0.1, 5.0


class Word(NamedTuple):
    began: int
    ended: int
    status: str  # OK, degraded, or silent where nobody answered
    parts: list[str]  # what is not well


class Watch:
    """A thread; a connection of its own for each question, so that every process of the API has its turn."""

    def __init__(self, port: int, folder: Path) -> None:
        self._port, self._file = port, open(folder / "health.jsonl", "a")  # noqa: SIM115  open for as long as we run
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S + 1)
        self._file.close()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            self._file.write(json.dumps(ask(self._port)) + "\n")
            self._file.flush()


def ask(port: int) -> Word:
    began = now()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("GET", "/health", headers={"connection": "close"})
        health = json.loads(connection.getresponse().read())
        connection.close()
    except (OSError, http.client.HTTPException, ValueError):
        return Word(began, now(), "silent", [])
    parts = {"control": health["control"], "redis": health["redis"]}
    parts |= {f"shard {one['shard']}": one for one in health["shards"]}
    return Word(began, now(), health["status"], [name for name, part in parts.items() if part["status"] != "OK"])


def words(folder: Path) -> Iterator[Word]:
    for line in (folder / "health.jsonl").read_text().splitlines():
        yield Word(*json.loads(line))
