"""What is written down while the load runs, append-only: a file a topic and process, so that the judge can take one
topic after the other and never holds a whole run in memory.

A line is a JSON array that begins with its kind and when the call began and ended:

    E  enqueue   [[tag, id, outcome, priority, delay_ms, ttl_ms, key, max_retries], ...]
    D  dequeue   outcome, wait_ms, limit, [[id, tag, priority, attempt, epoch, start, until, enqueued, after], ...]
    S  settle    verb, [[id, epoch, outcome, until], ...], delay_ms, visibility_ms
    C  cancel    id, outcome
    M  move      id, outcome, priority, delay_ms
    R  replay    [id, ...], how many or ?
    X  delete    [id, ...], how many or ?

The outcome of an enqueue is ok, perhaps, no or elsewhere; that of a settle a state, a code, unsent, or ? where no
answer came. Beside them `keys` has [key, topic, id, outcome], `problems` what no client should ever see, and `calls`
twenty bytes for every call, for the timeline.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

from tests.faults.checker.client import Answer

CALL = struct.Struct("<qqBBH")
VERBS = ("enqueue", "dequeue", "ack", "nack", "extend", "release", "cancel", "move", "dlq", "replay", "delete", "look")
WELL, PUSHED_BACK, NO_ANSWER, REFUSED, BROKEN = range(5)  # REFUSED: nobody listened


class Call(NamedTuple):
    began: int
    ended: int
    verb: int
    outcome: int
    topic: int


class Recorder:
    """One process's files."""

    def __init__(self, folder: Path, process: int) -> None:
        self._folder, self._process = folder, process
        self._files: dict[str, TextIO] = {}
        self._calls: BinaryIO = open(folder / f"calls-{process}", "ab")  # noqa: SIM115  open for as long as we run

    def line(self, name: str, *fields: Any) -> None:
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = open(self._folder / f"{name}-{self._process}.jsonl", "a")  # noqa: SIM115
        file.write(json.dumps(fields, separators=(",", ":")) + "\n")

    def call(self, verb: str, topic: int, answer: Answer) -> None:
        self._calls.write(CALL.pack(answer.began, answer.ended, VERBS.index(verb), outcome_of(answer), topic))

    def flush(self) -> None:
        for file in (*self._files.values(), self._calls):
            file.flush()

    def close(self) -> None:
        for file in (*self._files.values(), self._calls):
            file.close()


def outcome_of(answer: Answer) -> int:
    if answer.status == 0:
        return NO_ANSWER if answer.was_sent else REFUSED
    if answer.status == 503:
        return PUSHED_BACK
    return BROKEN if answer.status >= 500 else WELL


def lines(folder: Path, name: str) -> Iterator[list[Any]]:
    """Of every process; a last line that a kill has cut is left out."""
    for path in sorted(folder.glob(f"{name}-*.jsonl")):
        with open(path) as file:
            for line in file:
                if line.endswith("\n"):
                    yield json.loads(line)


def calls(folder: Path) -> Iterator[Call]:
    for path in sorted(folder.glob("calls-*")):
        content = path.read_bytes()
        whole = len(content) - len(content) % CALL.size
        yield from map(Call._make, CALL.iter_unpack(content[:whole]))
