"""Which dead letters are meant, and places among them. Searches, jobs and the admin say it alike."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from mqueue.core import names
from mqueue.core.messages import MessageId, Reason, Time, Topic

Phrase = Annotated[str, Meta(min_length=1, max_length=200, pattern=names.TEXT)]
Attempts = Annotated[int, Meta(ge=0, le=1001)]
PLACE = r"^([0-9]{1,18}-[0-9]{1,16})?\Z"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_US = 253_402_300_799_999_999  # the last microsecond that datetime can say


class DeadFilter(Struct, frozen=True, omit_defaults=True):
    """All of them have to hold. `since` and `until` (exclusive) are about when the message died."""

    topic: Topic | None = None
    id: MessageId | None = None
    text: Phrase | None = None
    error: Phrase | None = None
    reason: Reason | None = None
    since: Time | None = None
    until: Time | None = None
    min_attempts: Attempts | None = None
    max_attempts: Attempts | None = None

    @property
    def reads_text(self) -> bool:
        """Whether the letters themselves have to be read, which takes longer."""
        return self.text is not None or self.error is not None


class JobFilter(DeadFilter, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A condition with a slip in its name is no condition, and without one all letters are meant: so it is refused."""


class Place(NamedTuple):
    """Of a letter in the order of a search: those that died last come first."""

    died_at: datetime
    id: int

    def written(self) -> str:
        return f"{(self.died_at - _EPOCH) // timedelta(microseconds=1)}-{self.id}"


TOP = Place(datetime.max.replace(tzinfo=UTC), 2**53)


def place_of(text: str) -> Place:
    """As `written` made it; nothing is the top."""
    found = re.fullmatch(r"([0-9]{1,18})-([0-9]{1,16})", text)
    if not found:
        return TOP
    return Place(_EPOCH + timedelta(microseconds=min(int(found[1]), _LATEST_US)), int(found[2]))
