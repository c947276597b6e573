"""A ref: where a waiting message stands in the order of its topic, and what a claim needs to know of it.

Fixed-width hexadecimal text, so that the bytes sort as the messages do: priority, due (microseconds), id; then epoch
and day. The SQL function `ref` writes the same.
"""

import datetime
from typing import Any, NamedTuple

PLACE = 30  # characters that say where it stands
NOTHING, EVERYTHING = "", "g"  # bounds: before the first ref, and behind the last
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_DAY_ZERO = datetime.date(2000, 1, 1).toordinal()


class Ref(NamedTuple):
    """The parts that a claim names."""

    text: str
    id: int
    epoch: int

    @property
    def day(self) -> datetime.date:
        return datetime.date.fromordinal(_DAY_ZERO + int(self.text[38:], 16))


def write(priority: int, due: datetime.datetime, number: int, epoch: int) -> str:
    """A message just added lies in the day at which it is due."""
    days = due.toordinal() - _DAY_ZERO
    return f"{priority:02x}{microseconds(due):014x}{number:014x}{epoch:08x}{days:05x}"


def read(text: str) -> Ref:
    return Ref(text, int(text[16:PLACE], 16), int(text[PLACE:38], 16))


def due_of(text: str) -> int:
    """In microseconds."""
    return int(text[2:16], 16)


def place_of(text: str) -> dict[str, Any]:
    """Priority, due and id of a ref or a bound, as statements take them that read on from a place."""
    if text == NOTHING:
        return {"priority": 0, "due": _EPOCH, "id": 0}
    due = _EPOCH + _MICROSECOND * due_of(text)
    return {"priority": int(text[:2], 16), "due": due, "id": int(text[16:PLACE], 16)}


def microseconds(at: datetime.datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND
