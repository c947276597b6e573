"""What must hold of each message, whatever goes wrong. A rule takes a message's story and yields what breaks it.

The database's clock is this machine's, so its times and ours compare; GRAIN is how exactly.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

from tests.faults.checker.causes import UNWISHED, cause, changed_between, lost_polls
from tests.faults.checker.findings import Findings
from tests.faults.checker.history import History, Lease, Message, Settle
from tests.faults.checker.times import SECOND

GRAIN = 5_000


Rule = Callable[[Message, History], Iterator[str]]


def delivered_as_sent(message: Message, history: History) -> Iterator[str]:
    """Nothing is delivered that nobody sent, that was refused, or that is not what was sent."""
    for lease in message.leases:
        sent = [one for one in history.by_tag.get(lease.tag, ()) if one.outcome not in ("no", "elsewhere")]
        if not sent:
            known = lease.tag in history.by_tag
            yield f"{message.id} ({lease.tag or 'no tag'}) was delivered, and {'refused' if known else 'never sent'}"
            continue
        moved = any(change.kind == "M" and change.outcome != "no" for change in message.changes)
        if not moved and lease.priority not in {one.priority for one in sent}:
            yield f"{message.id} was delivered with priority {lease.priority}, sent with {sent[0].priority}"
    if len({lease.tag for lease in message.leases}) > 1:
        yield f"{message.id} was delivered with different contents"


def leased_by_one(message: Message, history: History) -> Iterator[str]:
    """Epochs rise, and no lease is handed out before the one before it may have ended. It says that it began when its
    statement did: on a busy machine, or behind a lock, some time before that saw the row."""
    for before, after in pairwise(message.leases):
        if after.epoch == before.epoch:
            yield f"{message.id}: epoch {after.epoch} was handed out twice"
        elif after.poll.ended <= before.start:
            yield f"{message.id}: epoch {after.epoch} began before epoch {before.epoch}"
        elif after.poll.ended < (end := _may_end(message, before, after)) - GRAIN:
            early = (end - after.start) / SECOND
            yield f"{message.id}: epoch {after.epoch} began {early:.3f} s before epoch {before.epoch} can have ended"


def _may_end(message: Message, before: Lease, after: Lease) -> int:
    """What was nacked, and waits, may be moved; what has died, replayed."""
    if changed_between("R", message, before, after):
        return 0
    return before.may_end(moved=changed_between("M", message, before, after))


def quiet_when_over(message: Message, history: History) -> Iterator[str]:
    """Nothing is delivered after an ack, a cancel or a delete was answered, nor after its death without a replay."""
    for lease in message.leases:
        later = [other for other in message.leases if other.epoch > lease.epoch]
        for one in lease.settles:
            if later and one.outcome == "acked":
                yield f"{message.id}: delivered with epoch {later[0].epoch} though epoch {lease.epoch} was acked"
            if later and one.outcome == "dead" and not changed_between("R", message, lease, later[0]):
                yield f"{message.id}: delivered with epoch {later[0].epoch} though it died with epoch {lease.epoch}"
    for change in message.changes:
        if change.kind in "CX" and change.outcome == "ok" and _was_delivered_after(message, change.ended):
            yield f"{message.id}: delivered after it was {'cancelled' if change.kind == 'C' else 'deleted'}"


def never_early(message: Message, history: History) -> Iterator[str]:
    """Not before what was asked for at first, nor before what the last move says."""
    for lease in message.leases[:1]:
        placed = [change for change in message.changes if change.kind in "MR" and change.outcome != "no"]
        if any(change.began < lease.start for change in placed):
            continue
        if lease.start < lease.due:
            yield f"{message.id} was handed out {(lease.due - lease.start) / SECOND:.3f} s early"
        asked = [one.began + one.delay_ms * 1000 for one in message.sent if one.delay_ms and not one.key]
        if asked and lease.due < min(asked) - GRAIN:
            yield f"{message.id} is due before the delay that was asked for"
    for lease in message.leases:
        move = _last_move_before(message, lease)
        if move is not None and lease.start < move - GRAIN:
            yield f"{message.id} was handed out {(move - lease.start) / SECOND:.3f} s before the time it was moved to"


def never_expired(message: Message, history: History) -> Iterator[str]:
    """A message past its ttl is not handed out."""
    if message.changes or not message.sent or message.sent[0].ttl_ms is None:
        return
    for lease in message.leases:
        over = lease.due + message.sent[0].ttl_ms * 1000
        if lease.start > over + GRAIN:
            yield f"{message.id} was handed out {(lease.start - over) / SECOND:.3f} s after its ttl"


def attempts_within_bounds(message: Message, history: History) -> Iterator[str]:
    """Never more than 1 + max_retries; and each hand-out spends one, unless it was released."""
    most = [1 + one.max_retries for lease in message.leases for one in history.by_tag.get(lease.tag, ())]
    for lease in message.leases:
        if most and lease.attempt > max(most):
            yield f"{message.id} was handed out as attempt {lease.attempt} of {max(most)}"
    for before, after in pairwise(message.leases):
        hidden = after.epoch - before.epoch - 1
        if hidden or changed_between("R", message, before, after):
            continue
        released = any(one.verb == "release" and one.is_perhaps for one in before.settles)
        others = any(one.verb not in ("release", "extend") and one.is_done for one in before.settles)
        allowed = {before.attempt + 1} if not released else {before.attempt, before.attempt + 1}
        if released and any(one.outcome == "released" for one in before.settles) and not others:
            allowed = {before.attempt}
        if after.attempt not in allowed:
            yield f"{message.id}: attempt {after.attempt} followed attempt {before.attempt}"


def settles_are_true(message: Message, history: History) -> Iterator[str]:
    """A stale receipt settles nothing, and a live one is not refused."""
    for lease in message.leases:
        following = next((other for other in message.leases if other.epoch > lease.epoch), None)
        for position, one in enumerate(lease.settles):
            earlier = lease.settles[:position]
            if one.is_done and not _was_asked(earlier, one.verb):
                if one.began > lease.deadline(one.began)[1] + GRAIN:
                    yield f"{message.id}: {one.verb} was taken after the lease's deadline"
                if following and one.began > following.poll.ended + GRAIN:
                    yield f"{message.id}: {one.verb} with epoch {lease.epoch} was taken while {following.epoch} was out"
                if any(other.is_done and other.verb not in ("extend", one.verb) for other in earlier):
                    yield f"{message.id}: {one.verb} was taken of a lease that had ended"
            refused = one.outcome in ("stale_receipt", "not_leased")
            if refused and one.ended < lease.may_end(one.began) - GRAIN and not _ended(earlier):
                yield f"{message.id}: {one.verb} with a live receipt was answered {one.outcome}"


def every_hand_out_is_explained(message: Message, history: History) -> Iterator[str]:
    """Epochs that nobody saw are those of moves, replays, and polls whose answer was lost."""
    seen, since = 0, min((one.began for one in message.sent), default=0)
    for lease in message.leases:
        hidden = lease.epoch - seen - 1
        if hidden > 0:
            changes = [
                change for change in message.changes
                if change.kind in "MR" and change.outcome != "no"
                and change.began < lease.start and change.ended > since
            ]  # fmt: skip
            if hidden > len(changes):
                lost = sum(1 for _ in lost_polls(history, since, lease.poll.ended))
                if hidden > len(changes) + lost:
                    yield f"{message.id}: {hidden} epochs before {lease.epoch} that {lost} lost answers do not explain"
        seen, since = lease.epoch, lease.poll.began


RULES: list[Rule] = [
    delivered_as_sent, leased_by_one, quiet_when_over, never_early, never_expired, attempts_within_bounds,
    settles_are_true, every_hand_out_is_explained,
]  # fmt: skip


def judge_messages(history: History, findings: Findings) -> None:
    for message in history.messages.values():
        for rule in RULES:
            for words in rule(message, history):
                findings.broke(rule.__name__, f"{history.topic}: {words}")
        _count(message, findings)


def _count(message: Message, findings: Findings) -> None:
    findings.counts["messages promised"] += message.is_promised
    findings.counts["messages in doubt"] += not message.is_promised and bool(message.sent)
    findings.counts["deliveries"] += len(message.leases)
    for before, after in pairwise(message.leases):
        why = cause(before, after, message)
        findings.causes[why] += 1
        if why in UNWISHED:
            findings.again.append(after.start)


def _was_delivered_after(message: Message, at: int) -> bool:
    return any(lease.start > at + GRAIN for lease in message.leases)


def _last_move_before(message: Message, lease: Lease) -> int | None:
    """The time that the message surely was moved to for this lease; None where that cannot be told."""
    earlier = [other for other in message.leases if other.epoch < lease.epoch]
    placed = [change for change in message.changes if change.outcome != "no" and change.began < lease.start]
    if not placed:
        return None
    last = max(placed, key=lambda change: change.began)
    is_sure = last.outcome == "ok" and last.kind == "M" and last.delay_ms is not None and last.ended < lease.poll.began
    alone = all(change is last or change.ended < last.began for change in placed)
    unseen = earlier and earlier[-1].poll.ended > last.began
    if not (is_sure and alone) or unseen or lease.epoch > (earlier[-1].epoch if earlier else 0) + 2:
        return None
    return last.began + last.delay_ms * 1000  # type: ignore[operator]


def _was_asked(earlier: list[Settle], verb: str) -> bool:
    return any(one.verb == verb and one.is_perhaps for one in earlier)


def _ended(earlier: list[Settle]) -> bool:
    return any(one.is_perhaps and one.verb != "extend" for one in earlier)
