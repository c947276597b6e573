"""Why a message was delivered again."""

from collections.abc import Iterator

from tests.faults.checker.history import History, Lease, Message, Poll
from tests.faults.checker.times import SECOND

# A poll whose answer was lost may go on in the service for as long as it was to wait, and then give back what it found.
LINGERS = 30 * SECOND
GIVEN_AWAY, UNANSWERED = "given to somebody whose answer was lost, or moved", "settled without an answer"
UNWISHED = (GIVEN_AWAY, UNANSWERED)  # no client asked for it: an answer was lost


def lost_polls(history: History, since: int, until: int) -> Iterator[Poll]:
    """Those that may have leased something in that time, which nobody has seen."""
    for poll in history.polls:
        if poll.began > until:
            return
        if poll.outcome == "perhaps" and poll.ended + LINGERS > since:
            yield poll


def cause(before: Lease, after: Lease, message: Message) -> str:
    """Why it was delivered again."""
    if changed_between("R", message, before, after):
        return "replayed"
    if after.epoch > before.epoch + 1:
        return GIVEN_AWAY
    for one in reversed(before.settles):
        if one.outcome in ("retrying", "released"):
            return {"retrying": "nacked", "released": "released"}[one.outcome]
    if any(one.outcome == "?" for one in before.settles):
        return UNANSWERED
    return "lapsed"


def changed_between(kind: str, message: Message, before: Lease, after: Lease) -> bool:
    return any(
        change.kind == kind and change.outcome != "no" and change.ended > before.start and change.began < after.start
        for change in message.changes
    )
