"""All times of a run are microseconds of the machine's monotonic clock, which its processes share."""

import time
from datetime import UTC, datetime, timedelta

SECOND = 1_000_000
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def now() -> int:
    return time.monotonic_ns() // 1000


def offset() -> int:
    """What to take from a wall clock's microseconds. Measured once a run, so that equal times stay equal."""
    return time.time_ns() // 1000 - now()


def of_server(text: str | None, run_offset: int) -> int | None:
    """A time that the service answered; its databases have this machine's clock."""
    return None if text is None else (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND - run_offset
