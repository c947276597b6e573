"""The two shards of a move, as the mover reaches them, and what keeps one that was overtaken from changing anything."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from shards.resharding.record import Move, MoverError
from shards.resharding.tables import Connected, mask_of

PATIENCE_MS = 300  # for a lock, before the writers behind it are let pass
SETTINGS = (
    "SELECT set_config('timezone', 'UTC', false), set_config('mqueue.mover', 'on', false), "
    "set_config('mqueue.erasing', 'on', false)"  # also of days that are sealed
)


class End:
    """One shard."""

    def __init__(self, url: str, number: int, move: Move) -> None:
        self.connection: Connected = psycopg.connect(url, autocommit=True, application_name="mqueue reshard")
        self.connection.execute(SETTINGS)
        self.move, self.number = move, number
        self.slots = mask_of(move.slots)
        row = self.connection.execute("SELECT number FROM shard_identity").fetchone()
        if row != (number,):
            raise MoverError(f"DATABASE_URLS[{number}] is not shard {number}: {row}")
        self.connection.execute("UPDATE moving SET term = %s WHERE move = %s", [move.term, move.number])

    def close(self) -> None:
        self.connection.close()

    @property
    def state(self) -> str | None:
        """What this shard knows of the move."""
        row = self.connection.execute("SELECT state FROM moving WHERE move = %s", [self.move.number]).fetchone()
        return row[0] if row else None

    def note(self, state: str) -> None:
        """That the move has begun here; it may have been noted before."""
        self.connection.execute(
            "INSERT INTO moving (move, term, state, slots) VALUES (%s, %s, %s, %s::text::bit(1024)) "
            "ON CONFLICT DO NOTHING",
            [self.move.number, self.move.term, state, self.slots],
        )

    def forget(self) -> None:
        if self.state is not None:
            with self.as_mover():
                self.connection.execute("DELETE FROM moving WHERE move = %s", [self.move.number])
        self.forget_parts()

    def forget_parts(self) -> None:
        self.connection.execute("DELETE FROM moving_part WHERE move = %s", [self.move.number])

    @contextmanager
    def as_mover(self) -> Iterator[Connected]:
        """A transaction that counts only while no later mover has taken over."""
        with self.connection.transaction():
            found = self.connection.execute(
                "SELECT FROM moving WHERE move = %s AND term = %s FOR UPDATE", [self.move.number, self.move.term]
            ).fetchone()
            if found is None:
                raise MoverError(f"another mover has taken over move {self.move.number}")
            yield self.connection

    @contextmanager
    def briefly(self) -> Iterator[None]:
        """What waits for a lock inside gives up after a moment, with LockNotAvailable."""
        self.connection.execute("SELECT set_config('lock_timeout', %s, false)", [str(PATIENCE_MS)])
        try:
            yield
        finally:
            self.connection.execute("SELECT set_config('lock_timeout', '0', false)")


def topics_of(end: End) -> list[tuple[int, str, str]]:
    """Number, namespace and name of each topic of the slots that this shard knows."""
    return end.connection.execute(
        "SELECT id, namespace, name FROM topic WHERE get_bit(%s::text::bit(1024), slot_of(namespace, name)) = 1",
        [end.slots],
    ).fetchall()


LockNotAvailable = (errors.LockNotAvailable, errors.DeadlockDetected)
