"""A move on record in the control database: there is one at a time, and one mover at work on it."""

from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg import errors

from shards.resharding.tables import Connected

ONE_MOVER = 0x6D716D76  # an advisory lock of the control database
READ = "SELECT id, slots, source, target, state, term, progress, pause_ms, finished_at IS NOT NULL FROM slot_move"
STEPS = ("watch", "copy", "compare", "switch", "clean")
# What is on record is the last step that was finished; the first one is "begun".
STATES = ("begun", *STEPS)


class MoverError(Exception):
    """A move cannot be begun, or cannot go on; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Move:
    number: int
    slots: tuple[int, ...]
    source: int
    target: int
    state: str  # the last step that was finished
    term: int
    progress: str
    pause_ms: float | None
    is_finished: bool

    @property
    def title(self) -> str:
        return f"move {self.number}: slots {ranges(self.slots)} from shard {self.source} to shard {self.target}"


class Record:
    """Holds the lock of the one mover for as long as it is open."""

    def __init__(self, control_url: str) -> None:
        self.connection: Connected = psycopg.connect(control_url, autocommit=True, application_name="mqueue reshard")
        row = self.connection.execute("SELECT pg_try_advisory_lock(%s)", [ONE_MOVER]).fetchone()
        if row != (True,):
            self.connection.close()
            raise MoverError("another `manage.py reshard` is at work; `reshard status` shows how far it is")

    def close(self) -> None:
        self.connection.close()

    def owners(self) -> tuple[int, ...]:
        return _owners(self.connection)

    def unfinished(self) -> Move | None:
        return _read(self.connection, "WHERE finished_at IS NULL")

    def begin(self, slots: "list[int]", source: int, target: int) -> Move:
        try:
            row = self.connection.execute(
                "INSERT INTO slot_move (slots, source, target, state, term, progress, began_at, changed_at) "
                "VALUES (%s, %s, %s, 'begun', 0, '', now(), now()) RETURNING id",
                [sorted(slots), source, target],
            ).fetchone()
        except errors.UniqueViolation as error:
            other = self.unfinished()
            title = other.title if other else "another move"
            raise MoverError(f"{title} is not finished: `reshard resume` or `reshard undo` it first") from error
        assert row
        found = _read(self.connection, "WHERE id = %s", row[0])
        assert found
        return found

    def take_over(self, move: Move) -> Move:
        """From now on every earlier mover of it changes nothing."""
        row = self.connection.execute(
            "UPDATE slot_move SET term = term + 1, changed_at = now() WHERE id = %s RETURNING term", [move.number]
        ).fetchone()
        assert row
        return replace(move, term=row[0])

    def tell(self, move: Move, progress: str) -> None:
        self.connection.execute(
            "UPDATE slot_move SET progress = %s, changed_at = now() WHERE id = %s AND term = %s",
            [progress, move.number, move.term],
        )

    def finish_step(self, move: Move, state: str, *, at_last: bool = False) -> Move:
        done = self.connection.execute(
            "UPDATE slot_move SET state = %s, changed_at = now(), finished_at = CASE WHEN %s THEN now() END "
            "WHERE id = %s AND term = %s",
            [state, at_last, move.number, move.term],
        )
        if done.rowcount != 1:
            raise MoverError(f"another mover has taken over move {move.number}")
        return replace(move, state=state, is_finished=at_last)

    def switch(self, move: Move, pause_ms: float) -> Move:
        """The new slot map, and that the move is over the hill, in one transaction."""
        with self.connection.transaction():
            self.connection.execute("LOCK TABLE slot_map IN SHARE ROW EXCLUSIVE MODE")
            owners = list(self.owners())
            if any(owners[slot] not in (move.source, move.target) for slot in move.slots):
                raise MoverError("the slot map has changed under this move")
            for slot in move.slots:
                owners[slot] = move.target
            self.connection.execute(
                "INSERT INTO slot_map (owners, reason, created_at) VALUES (%s, %s, now())", [owners, move.title]
            )
            self.connection.execute("UPDATE slot_move SET pause_ms = %s WHERE id = %s", [pause_ms, move.number])
            return self.finish_step(move, "switch")


def read_last(control_url: str) -> Move | None:
    """The one that is not finished, or else the last; without a lock, for whoever only looks."""
    with psycopg.connect(control_url, autocommit=True) as connection:
        return _read(connection, "ORDER BY finished_at IS NOT NULL, id DESC LIMIT 1")


def _owners(connection: Connected) -> tuple[int, ...]:
    row = connection.execute("SELECT owners FROM slot_map ORDER BY version DESC LIMIT 1").fetchone()
    if row is None:
        raise MoverError("there is no slot map yet: run manage.py migrate_shards")
    return tuple(row[0])


def ranges(slots: "tuple[int, ...] | list[int]") -> str:
    """0-3,7"""
    parts: list[list[int]] = []
    for slot in sorted(slots):
        if parts and slot == parts[-1][1] + 1:
            parts[-1][1] = slot
        else:
            parts.append([slot, slot])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _read(connection: Connected, which: str, *parameters: Any) -> Move | None:
    row = connection.execute(f"{READ} {which}", parameters).fetchone()
    return Move(row[0], tuple(row[1]), *row[2:]) if row else None


def read_owners(control_url: str) -> tuple[int, ...]:
    """By slot, as the newest slot map has it."""
    with psycopg.connect(control_url, autocommit=True) as connection:
        return _owners(connection)
