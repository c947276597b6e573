"""Where a message stood in the order when it was leased."""

from tests.faults.checker.history import Lease, Message


def due_of(message: Message, position: int) -> int | None:
    """Its due time before the lease at that position; None where that cannot be told exactly."""
    lease = message.leases[position]
    before = message.leases[position - 1] if position else None
    since = before.start if before else 0
    if any(one.outcome != "no" and one.began < lease.start and one.ended > since for one in message.changes):
        return None
    if lease.epoch != (before.epoch if before else 0) + 1:
        return None
    return _due_after(before) if before else lease.due


def _due_after(lease: Lease) -> int | None:
    """As it ended."""
    ending = [one for one in lease.settles if one.is_perhaps and one.verb != "extend"]
    if not ending:
        earliest, latest = lease.deadline()
        return latest if earliest == latest else None
    if len(ending) == 1 and ending[0].outcome == "retrying":
        return ending[0].until
    if len(ending) == 1 and ending[0].outcome == "released":
        return due_of(lease.message, lease.message.leases.index(lease))
    return None
