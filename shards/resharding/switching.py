"""The moment in which the slots change their owner.

The mover holds a lock that every writer to these slots on the source takes a share of, so none of them is under way,
and those who come are refused for the moment and try again. In it: the last changes are copied, the heads of the
target in Redis are wiped, the source notes that the slots are gone, and the control database has a new slot map. Once
the source has noted that, there is only one way, and whoever resumes goes it. Until then, a mover that dies frees the
lock with its session, and the source serves on.
"""

import time
from collections.abc import Callable

import psycopg

from shards.resharding.copying import catch_up, copy_topics
from shards.resharding.ends import End, LockNotAvailable, topics_of
from shards.resharding.record import Move, MoverError, Record

LOCK = 1836151660  # as in the function watch_slot
PORTION, FEW = 5_000, 200
MOST_S = 0.6  # of pause, before the last changes have to be copied
TRIES, REST_S = 50, 0.2
SILENT_MS = 2_000  # a mover that was stopped in the pause loses the lock after that
Wipe = Callable[[int, list[int]], None]  # a shard's number, and topics
Tell = Callable[[str], None]


class Switch:
    def __init__(self, record: Record, source: End, target: End, wipe: Wipe, tell: Tell) -> None:
        self._record, self._source, self._target = record, source, target
        self._wipe, self._tell = wipe, tell

    def run(self, move: Move) -> Move:
        copy_topics(self._source, self._target)
        topics = [row[0] for row in topics_of(self._source)]
        if self._source.state == "gone":  # the one before us came to here
            self._wipe(self._target.number, topics)
            return self._go_over(move, time.monotonic())
        for _ in range(TRIES):
            while catch_up(self._source, self._target, PORTION) > FEW:
                pass
            if switched := self._pause(move, topics):
                return switched
            time.sleep(REST_S)
        raise MoverError("the writers leave no moment for the switch: `reshard resume` tries again")

    def _pause(self, move: Move, topics: "list[int]") -> Move | None:
        """None where it would have taken too long."""
        began = time.monotonic()
        source = self._source.connection
        try:
            with self._source.briefly():
                source.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        except LockNotAvailable:
            return None
        try:
            source.execute("SELECT set_config('idle_session_timeout', %s, false)", [str(SILENT_MS)])
            self._tell("paused")
            while catch_up(self._source, self._target, PORTION):
                if time.monotonic() - began > MOST_S:
                    return None
            self._wipe(self._target.number, topics)
            if time.monotonic() - began > MOST_S:
                return None
            with self._source.as_mover():
                source.execute("UPDATE moving SET state = 'gone' WHERE move = %s", [move.number])
            self._tell("gone")
            return self._go_over(move, began)
        finally:
            self._unlock(source)

    def _go_over(self, move: Move, began: float) -> Move:
        switched = self._record.switch(move, (time.monotonic() - began) * 1000)
        self._tell("switched")
        open_target(self._target)
        return switched

    def _unlock(self, source: "psycopg.Connection[tuple[object, ...]]") -> None:
        if not source.closed:
            source.execute("SELECT set_config('idle_session_timeout', '0', false)")
            source.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


def open_target(target: End) -> None:
    """The slots are here now. What refused them, when they had once left from here, does so no more."""
    with target.connection.transaction():
        target.connection.execute("DELETE FROM moving WHERE move = %s AND state = 'coming'", [target.move.number])
        target.connection.execute(
            "UPDATE moving SET slots = slots & ~(%s::text::bit(1024)) WHERE state IN ('gone', 'left')", [target.slots]
        )
        target.connection.execute("DELETE FROM moving WHERE slots = 0::bit(1024)")
