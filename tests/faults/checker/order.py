"""Strict order, as far as it can be told from outside: while a message surely waited, no dequeue returned one behind
it, and none came back with less than was asked for.

A stay is a time in which a message surely waited at a known place: after the answer that says so, and until the first
call began that may have taken or changed it. A poll is held against the stays that began before it and ended after it.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.faults.checker.causes import lost_polls
from tests.faults.checker.findings import Findings
from tests.faults.checker.history import NEVER, History, Lease, Message, Poll
from tests.faults.checker.places import due_of
from tests.faults.checker.times import SECOND

GRAIN = 10_000
BEFORE_ITS_LEASE = 4 * SECOND  # a long poll takes a message so long before the lease's time at most
LIMBO = 3 * SECOND  # what a lost poll had in its hands is offered again after a second
STUCK = SECOND

Key = tuple[int, int, int]  # priority, due, id
Span = tuple[int, int]


class Stay(NamedTuple):
    since: int
    until: int
    key: Key


def judge_order(history: History, skipped: list[Span], findings: Findings, edges: Iterable[Span] = ()) -> None:
    """The skipped spans are not judged. The edges of faults are, but a poll may come to an early end by one."""
    stays = sorted(stay for message in history.messages.values() for stay in _stays(message, history))
    active: list[tuple[Key, int]] = []
    position = 0
    for poll, worst in _judged(history, skipped, merged(edges), findings):
        while position < len(stays) and stays[position].since + GRAIN < poll.began:
            insort(active, (stays[position].key, stays[position].until))
            position += 1
        _hold_against(poll, worst, active, history, findings)


def _hold_against(poll: Poll, worst: Key, active: list[tuple[Key, int]], history: History, findings: Findings) -> None:
    over = []
    for index, (key, until) in enumerate(active):
        if key >= worst:
            break
        if until <= poll.began:
            over.append(index)
        elif until > poll.ended:
            missed = f"{history.topic}: {key[2]} (priority {key[0]}) surely waited at {poll.began / SECOND:.3f} s"
            more = (
                f"; asked for {_ms(poll.ended - poll.began)}, wait_ms {poll.wait_ms}; {_story(history, key[2], poll)}"
            )
            if poll.leases and key < _worst(poll.leases):
                findings.broke("strict_order", f"{missed} and {poll.leases[-1].message.id} was returned{more}")
            else:
                withheld = f"{missed} and {len(poll.leases)} of {poll.limit} were returned"
                findings.broke("nothing_withheld", withheld + more)
            break
    for index in reversed(over):
        del active[index]


def _story(history: History, number: int, poll: Poll) -> str:
    """What befell the message, in time from the poll's beginning."""
    message = history.messages[number]
    told = [(one.ended, f"sent: {one.outcome}") for one in message.sent]
    for lease in message.leases:
        told.append((lease.poll.ended, f"leased ({lease.epoch}) until {_ms(lease.until - poll.began)}"))
        told += [(one.ended, f"{one.verb}: {one.outcome}") for one in lease.settles]
    told += [(one.ended, f"{one.kind}: {one.outcome}") for one in message.changes]
    return ", ".join(f"{_ms(at - poll.began)} {words}" for at, words in sorted(told))


def _ms(microseconds: int) -> str:
    return f"{microseconds / 1000:.0f} ms"


def _judged(history: History, skipped: list[Span], edges: list[Span], findings: Findings) -> Iterator[tuple[Poll, Key]]:
    sure = sure_polls(history, skipped, edges)
    findings.counts["polls"] += sum(poll.outcome == "ok" for poll in history.polls)
    findings.counts["polls whose order was judged"] += len(sure)
    for poll in sure:
        _judge_within(poll, history, findings)
        is_full = len(poll.leases) >= poll.limit
        yield poll, _worst(poll.leases) if is_full else (NEVER, NEVER, NEVER)


def sure_polls(history: History, skipped: list[Span], edges: list[Span]) -> list[Poll]:
    """Those beside which nobody can have had messages in his hands that he has not handed out."""
    held = [(poll.began, poll.ended + LIMBO) for poll in history.polls if _may_hold(poll)]
    cut_short = [(poll.began, poll.ended) for poll in history.polls if _may_be_cut_short(poll, edges)]
    unsure = Spans([*skipped, *held, *cut_short])
    return [poll for poll in history.polls if poll.outcome == "ok" and not unsure.meet(poll.began, poll.ended)]


def _may_hold(poll: Poll) -> bool:
    """Whether it may have had messages in its hands for a while, and not handed out: it was lost, or it was stuck."""
    return poll.outcome == "perhaps" or poll.ended - poll.began > poll.wait_ms * 1000 + STUCK


def _may_be_cut_short(poll: Poll, edges: list[Span]) -> bool:
    """Whether a claim of it may have failed: what it had in its hands was nobody's until it was answered, with those of
    claims before, or not at all."""
    if poll.outcome == "ok" and not 0 < len(poll.leases) < poll.limit:
        return False
    after = bisect_right(edges, (poll.ended, NEVER))
    return after > 0 and edges[after - 1][1] > poll.began


def _judge_within(poll: Poll, history: History, findings: Findings) -> None:
    keys = [key for lease in poll.leases if (key := _exact_key(lease)) is not None]
    if keys != sorted(keys):
        findings.broke("strict_order", f"{history.topic}: an answer at {poll.began / SECOND:.3f} s is not in order")


def _worst(leases: Iterable[Lease]) -> Key:
    """The last place that surely was handed out; where the due time is not known, the least that it may be."""
    return max((_exact_key(lease) or (lease.priority, 0, 0) for lease in leases), default=(-1, 0, 0))


def _exact_key(lease: Lease) -> Key | None:
    due = due_of(lease.message, lease.message.leases.index(lease))
    return None if due is None else (lease.priority, due, lease.message.id)


def _stays(message: Message, history: History) -> Iterator[Stay]:
    promised = [one.ended for one in message.sent if one.outcome == "ok"]
    if not promised:
        return
    sent = message.sent[0]
    first = message.leases[0] if message.leases else None
    due = first.due if first else min(promised) + (sent.delay_ms or 0) * 1000
    expiry = NEVER if sent.ttl_ms is None else sent.began + ((sent.delay_ms or 0) + sent.ttl_ms) * 1000
    if first is None or first.epoch == 1:
        since = max(min(promised), due)
        yield from _stay(message, history, since, (sent.priority, due, message.id), first, expiry)
    if sent.ttl_ms is not None:
        return
    for position, lease in enumerate(message.leases):
        following = message.leases[position + 1] if position + 1 < len(message.leases) else None
        ending = [one for one in lease.settles if one.is_perhaps and one.verb != "extend"]
        if len(ending) != 1 or (following and following.epoch != lease.epoch + 1):
            continue
        if ending[0].outcome == "retrying" and ending[0].until is not None:
            since, due_again = max(ending[0].ended, ending[0].until), ending[0].until
        elif ending[0].outcome == "released" and (before := due_of(message, position)) is not None:
            since, due_again = ending[0].ended, before
        else:
            continue
        yield from _stay(message, history, since, (lease.priority, due_again, message.id), following, NEVER)


def _stay(message: Message, history: History, since: int, key: Key, taken: Lease | None, expiry: int) -> Iterator[Stay]:
    until = min(expiry, _taken_at(taken) if taken else _first_lost(history, since))
    for change in message.changes:
        if change.outcome != "no" and change.ended > since - SECOND:
            until = min(until, change.began)
        elif change.outcome != "no" and change.kind != "R":
            until = 0  # it lies somewhere else since
    if until > since:
        yield Stay(since, until, key)


def _taken_at(lease: Lease) -> int:
    if not lease.poll.wait_ms:
        return lease.poll.began
    return max(lease.poll.began, lease.start - BEFORE_ITS_LEASE)


def _first_lost(history: History, since: int) -> int:
    return min((max(poll.began, since) for poll in lost_polls(history, since, NEVER)), default=NEVER)


class Spans:
    """Times that may overlap, to be asked for many others whether they meet."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = merged(spans)

    def meet(self, began: int, ended: int) -> bool:
        after = bisect_left(self._spans, (ended, 0))
        return after > 0 and self._spans[after - 1][1] >= began


def merged(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for began, ended in sorted(spans):
        if found and began <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], ended)
        else:
            found.append((began, ended))
    return found
