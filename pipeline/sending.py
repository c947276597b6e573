"""Packs of a replay on their way through the door, and how far they have come.

The topics of a lane are sent one request after the other, so that each keeps its order; lanes go side by side, and the
next pack behind this one. The run's place is behind the last pack of which everything was answered.
"""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from django.utils import timezone

from pipeline.door import Door
from pipeline.models import Replay
from pipeline.spans import LANES, moment

BATCH = 1_000
UNDER_WAY = 3  # packs
SAY_EVERY_S = 2.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Pack:
    """On its way."""

    at: int
    id: int
    sent: int
    skipped: int
    answers: "list[Future[int]]"


class Sending:
    """A context: it closes its doors."""

    def __init__(self, run: Replay, door: Door, rate: float | None, total: int, say: Say) -> None:
        self._run, self._rate, self._say = run, rate, say
        self._total = run.sent + total
        self._stack = ExitStack()
        self._lanes = [Lane(self._stack, door.another()) for _ in range(LANES)]
        self._under_way: deque[Pack] = deque()
        self.skipped = self.duplicates = 0
        self._began, self._before = time.monotonic(), run.sent
        self._said = self._began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    @property
    def begun(self) -> int:
        """How many were sent, with those that are not answered yet."""
        return self._run.sent + sum(pack.sent for pack in self._under_way)

    def add(self, pack: pa.Table) -> None:
        size = pack.num_rows if self._rate is None else max(1, min(BATCH, int(self._rate)))
        for start in range(0, pack.num_rows, size):
            self._send(pack.slice(start, size))
            while len(self._under_way) >= (1 if self._rate else UNDER_WAY):
                self._finish()

    def flush(self) -> None:
        while self._under_way:
            self._finish()

    def _send(self, pack: pa.Table) -> None:
        ready = pack.filter(pc.is_valid(pack["line"]))
        answers = []
        for number, lane in enumerate(self._lanes):
            lines = ready.filter(pc.equal(ready["lane"], number))["line"].to_pylist()
            answers += [lane.send(lines[start : start + BATCH]) for start in range(0, len(lines), BATCH)]
        at, last = pack["at"][-1].as_py(), pack["id"][-1].as_py()
        self._under_way.append(Pack(at, last, ready.num_rows, pack.num_rows - ready.num_rows, answers))

    def _finish(self) -> None:
        """Wait for the oldest pack, and note that it is done."""
        pack = self._under_way[0]
        self.duplicates += sum(answer.result() for answer in pack.answers)
        self._under_way.popleft()
        self.skipped += pack.skipped
        run = self._run
        run.sent += pack.sent
        run.last_at, run.last_id, run.touched_at = moment(pack.at), pack.id, timezone.now()
        run.save(update_fields=["sent", "last_at", "last_id", "touched_at"])
        self._tell()
        if self._rate:
            time.sleep(max(0.0, self._began + (run.sent - self._before) / self._rate - time.monotonic()))

    def _tell(self) -> None:
        if time.monotonic() - self._said >= SAY_EVERY_S:
            self._said = time.monotonic()
            self._say(f"{self._run.sent} of {self._total} sent ({100 * self._run.sent // max(1, self._total)} %)")


class Lane:
    """One request after the other, in a thread of its own. After one that failed, none."""

    def __init__(self, stack: ExitStack, door: Door) -> None:
        self._door = door
        self._failed = False
        stack.callback(door.close)
        self._thread = stack.enter_context(ThreadPoolExecutor(1))
        stack.callback(self._thread.shutdown, cancel_futures=True)

    def send(self, lines: list[bytes]) -> "Future[int]":
        return self._thread.submit(self._enqueue, lines)

    def _enqueue(self, lines: list[bytes]) -> int:
        if self._failed:
            return 0
        try:
            return self._door.enqueue(lines)
        except BaseException:
            self._failed = True
            raise
