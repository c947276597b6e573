"""One run at a time of those that write the lake. The lock ends with its holder's connection, so a killed run holds up
nobody; whoever loses it unawares is stopped by his term when he publishes."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from mqueue.core.conf import Conf
from pipeline.errors import Busy, Fenced

WRITING = 0x6C616B65  # any number that nothing else locks


@dataclass(frozen=True, slots=True)
class Turn:
    _connection: "psycopg.Connection[Any]"

    def require(self) -> None:
        """It is still ours: the lock lives as long as its connection."""
        try:
            self._connection.execute("SELECT 1")
        except psycopg.OperationalError as error:
            raise Fenced("The lock was lost, and another run may be at it") from error


@contextmanager
def turn(conf: Conf, number: int = WRITING) -> Iterator[Turn]:
    """By another number, of those that must not run beside themselves and write no lake."""
    with psycopg.connect(conf.control_url, autocommit=True, connect_timeout=5) as connection:
        if connection.execute("SELECT pg_try_advisory_lock(%s)", [number]).fetchone() != (True,):
            raise Busy("Another run writes the lake" if number == WRITING else "Another run is at it")
        try:
            yield Turn(connection)
        finally:
            with suppress(psycopg.OperationalError):  # a session ends a moment after its connection
                connection.execute("SELECT pg_advisory_unlock(%s)", [number])
