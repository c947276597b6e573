"""The partitions of `message` and `event`, a day each: made ahead by the maintenance task, and on the spot when one is
missing, so that none can come too late."""

import datetime
from collections.abc import Awaitable, Callable, Iterable
from itertools import product
from typing import Any, TypeVar

from psycopg import errors

from mqueue.core.errors import ShardUnavailable, Undecided
from shards.pools import Database

PARENTS = ("message", "event")
DAYS_AHEAD = 7  # a week without the maintenance task is not noticed
T = TypeVar("T")


async def make(database: Database, days: Iterable[datetime.date], parents: Iterable[str] = PARENTS) -> int:
    """How many had to be made. Each in a use of its own: many may take longer than one use is allowed."""
    made = 0
    try:
        for parent, day in product(parents, sorted(set(days))):
            async with database.connection() as connection:
                cursor = await connection.execute("SELECT make_partition(%s, %s)", [parent, day])
                made += await cursor.fetchone() == (True,)
    except Undecided as error:  # a partition too many or too few: nothing that a caller has to know of
        raise ShardUnavailable(error.detail, retry_after_s=error.retry_after_s) from error
    return made


async def with_partitions(database: Database, days: Iterable[datetime.date], work: Callable[[], Awaitable[T]]) -> T:
    """Do the work; if a partition is missing, make today's and those of the messages' days, and do it again."""
    try:
        return await work()
    except errors.CheckViolation as error:
        if not is_missing_partition(error):
            raise
    await make(database, await _around_today(database))
    await make(database, days, ["message"])
    return await work()


def is_missing_partition(error: errors.CheckViolation) -> bool:
    """A failed routing names the parent table and no constraint; a violated CHECK names its constraint."""
    return error.diag.constraint_name is None and error.diag.table_name in PARENTS


async def _around_today(database: Database) -> list[datetime.date]:
    """By the server's clock, with the day after: midnight may pass before the second try."""
    async with database.connection() as connection:
        row: Any = await (await connection.execute("SELECT (now() AT TIME ZONE 'UTC')::date")).fetchone()
    return [row[0], row[0] + datetime.timedelta(days=1)]
