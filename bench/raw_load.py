"""python -m bench.raw_load: COPY, claim with delete, or all of them, on one connection. Speaks as `bench.load` does."""

import math
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import Any

import psycopg

from bench.speak import begin, obey

BEFORE = 5 * 10**12  # ids that a measurement does not come to
AHEAD = 50  # batches that are built at a time, outside of the measured time
SIGNATURE = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
TRAILER = struct.pack("!h", -1)
MESSAGE = "COPY message (id, topic, day, priority, is_json, payload, payload_bytes) FROM STDIN (FORMAT binary)"
DELIVERY = "COPY delivery (id, topic, day, priority, due) FROM STDIN (FORMAT binary)"
CLAIM = """\
WITH claimed AS (
    UPDATE delivery SET state = 2, epoch = epoch + 1, attempts = attempts + 1, until = now() + interval '30 seconds'
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM delivery WHERE topic = %(topic)s AND state = 0 AND priority = 5 AND due <= now()
        ORDER BY due, id LIMIT %(batch)s FOR UPDATE SKIP LOCKED
    ))
    RETURNING id, day
)
SELECT c.id, m.payload FROM claimed c JOIN message m ON m.id = c.id AND m.day = c.day
"""
DELETE = "DELETE FROM delivery WHERE id = ANY(%s) AND state = 2"
# Tables that grow from nothing have no statistics to plan by, and the planner would read them whole.
PLANS = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off"
Batch = tuple[bytes, bytes]


class Builder:
    """Batches of rows in the binary form of COPY; all that differs between rows is the id."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._next, self._batch = spec["first"], spec["batch"]
        today = field(struct.pack("!i", (datetime.now(UTC).date() - date(2000, 1, 1)).days))
        now = datetime.now(UTC) - datetime(2000, 1, 1, tzinfo=UTC)
        topic, five = field(struct.pack("!i", spec["topic"])), field(struct.pack("!h", 5))
        payload = field(b"x" * spec["payload"]) + field(struct.pack("!i", spec["payload"]))
        self._message = struct.pack("!hi", 7, 8), topic + today + five + field(b"\1") + payload
        due = field(struct.pack("!q", int(now.total_seconds() * 1e6)))
        self._delivery = struct.pack("!hi", 5, 8), topic + today + five + due

    def batches(self, count: int) -> list[Batch]:
        """So many more."""
        return [self._build() for _ in range(count)]

    def _build(self) -> Batch:
        ids = [struct.pack("!q", self._next + n) for n in range(self._batch)]
        self._next += self._batch
        return rows(ids, *self._message), rows(ids, *self._delivery)


def field(value: bytes) -> bytes:
    return struct.pack("!i", len(value)) + value


def rows(ids: list[bytes], before: bytes, after: bytes) -> bytes:
    return SIGNATURE + before + (after + before).join(ids) + after + TRAILER


class Raw:
    """One connection and the seconds that it was measured."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._connection = psycopg.connect(spec["database"], autocommit=True)
        self._connection.execute(PLANS)
        self._spec, self._builder = spec, Builder(spec)
        self._batch: int = spec["batch"]
        self._wanted = {"batch": spec["batch"], "topic": spec["topic"]}
        self.took, self.done = 0.0, 0

    def add(self, batch: Batch) -> None:
        """One transaction of COPY into each of the two tables."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            for statement, data in zip((MESSAGE, DELIVERY), batch, strict=True):
                with cursor.copy(statement) as target:
                    target.write(data)

    def prefill(self, messages: int) -> None:
        """Let so many thousands wait before it begins."""
        builder = Builder(self._spec | {"first": self._spec["first"] + BEFORE, "batch": 1000})
        for _ in range(math.ceil(messages / 1000)):
            self.add(*builder.batches(1))

    def copy(self, seconds: float) -> None:
        """COPY for so long."""
        while self.took < seconds:
            with self._measured() as batches:
                for batch in batches:
                    self.add(batch)

    def cycle(self, seconds: float) -> None:
        """COPY, claim and delete for so long."""
        while self.took < seconds:
            with self._measured() as batches:
                for batch in batches:
                    self.add(batch)
                    assert self._take() == self._batch

    def claim(self, seconds: float) -> None:
        """Claim and delete for so long."""
        began = time.perf_counter()
        while self.took < seconds and self._take() == self._batch:  # or a quick machine has taken them all
            self.done += self._batch
            self.took = time.perf_counter() - began
        self._connection.execute("TRUNCATE message, delivery")  # or autovacuum would be at work in what comes next

    def _take(self) -> int:
        found = self._connection.execute(CLAIM, self._wanted, binary=True).fetchall()
        self._connection.execute(DELETE, [[row[0] for row in found]], binary=True)
        return len(found)

    @contextmanager
    def _measured(self) -> Iterator[list[Batch]]:
        batches = self._builder.batches(AHEAD)
        began = time.perf_counter()
        yield batches
        self.took += time.perf_counter() - began
        self.done += AHEAD * self._batch


def main(spec: dict[str, Any]) -> dict[str, float]:
    """Messages a second."""
    raw = Raw(spec)
    raw.prefill(spec.get("depth", 0))
    begin()
    {"copy": raw.copy, "claim": raw.claim, "cycle": raw.cycle}[spec["work"]](spec["seconds"])
    return {"seconds": raw.took, "messages": raw.done, "rate": raw.done / raw.took}


if __name__ == "__main__":
    obey(main)
