"""Strict order of one producer, in topics that are buffered.

When such a message is committed cannot be told from outside, and so not where it stands among those of others. But what
a producer was answered for goes before what he sends after that, with the same priority. So first hand-outs are
compared: that of the later one may not be over before that of the earlier one has begun.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tests.faults.checker.findings import Findings
from tests.faults.checker.history import History, Lease, Message, Poll, Sent
from tests.faults.checker.order import GRAIN, Span, Spans, merged, sure_polls
from tests.faults.checker.times import SECOND


class First(NamedTuple):
    """The first hand-out of a plain message."""

    sent: Sent
    lease: Lease

    def is_before(self, other: "First") -> bool:
        """Its producer knew that it was taken before he sent the other; or both were in one request, in this order."""
        is_together = (self.sent.began, self.sent.ended) == (other.sent.began, other.sent.ended)
        return self.sent.ended < other.sent.began or (is_together and self.lease.message.id < other.lease.message.id)


def judge_sequences(
    history: History, skipped: list[Span], findings: Findings, edges: list[Span], forgotten: Iterable[Span] = ()
) -> None:
    """Forgotten: times in which Redis may have lost what several processes then push again, each in its own order."""
    polls = {id(poll) for poll in sure_polls(history, skipped, merged(edges))}
    again = Spans(forgotten)
    lines: dict[tuple[str, int], list[First]] = {}
    for message in history.messages.values():
        if (first := _first(message)) and not again.meet(first.sent.began, first.lease.poll.ended):
            producer = first.lease.tag.rpartition("-")[0]
            lines.setdefault((producer, first.sent.priority), []).append(first)
    for line in lines.values():
        _judge_between(history, line, polls, findings)
        _judge_within(history, line, findings)


def _first(message: Message) -> First | None:
    if len(message.sent) != 1 or not message.leases:
        return None
    (sent,), lease = message.sent, message.leases[0]
    is_plain = sent.outcome == "ok" and not sent.delay_ms and sent.ttl_ms is None and sent.key is None
    is_changed = any(change.outcome != "no" and change.began < lease.poll.ended for change in message.changes)
    if not is_plain or is_changed or lease.epoch != 1 or lease.priority != sent.priority:
        return None
    return First(sent, lease)


def _judge_between(history: History, line: list[First], polls: set[int], findings: Findings) -> None:
    """Of all that went before one, that which was handed out last is enough to look at."""
    earlier = sorted(line, key=lambda one: one.sent.ended)
    position, last = 0, None
    for one in sorted(line, key=lambda one: one.sent.began):
        while earlier[position].sent.ended < one.sent.began:
            if last is None or last.lease.poll.began < earlier[position].lease.poll.began:
                last = earlier[position]
            position += 1
        if last is None or id(one.lease.poll) not in polls:
            continue
        findings.counts["messages judged by their producer's order"] += 1
        if last.lease.poll.began > one.lease.poll.ended + GRAIN:
            late = (last.lease.poll.began - one.lease.poll.ended) / SECOND
            _broke(history, findings, last, one, f"{late:.3f} s before it")


def _judge_within(history: History, line: list[First], findings: Findings) -> None:
    of_message = {one.lease.message.id: one for one in line}
    for poll in _polls_of(line):
        found = [of_message[lease.message.id] for lease in poll.leases if _is_first(of_message, lease)]
        for position, one in enumerate(found):
            for before in found[position + 1 :]:
                if before.is_before(one):
                    _broke(history, findings, before, one, "before it in the same answer")


def _is_first(of_message: dict[int, First], lease: Lease) -> bool:
    one = of_message.get(lease.message.id)
    return one is not None and one.lease is lease


def _polls_of(line: list[First]) -> Iterable[Poll]:
    return {id(one.lease.poll): one.lease.poll for one in line}.values()


def _broke(history: History, findings: Findings, before: First, one: First, how: str) -> None:
    words = f"{before.lease.message.id} was answered before {one.lease.message.id} was sent, which was handed out {how}"
    findings.broke("one_producers_order", f"{history.topic}: {words}")
