"""One topic's records as stories of messages: what was asked, what was answered, and what surely was so at a time."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

NEVER = 1 << 62


class Sent(NamedTuple):
    """One enqueue of a message."""

    began: int
    ended: int
    outcome: str  # ok, perhaps, no, elsewhere
    priority: int
    delay_ms: int | None
    ttl_ms: int | None
    key: str | None
    max_retries: int


class Settle(NamedTuple):
    """One try to end a lease, or to move its deadline."""

    began: int
    ended: int
    verb: str
    outcome: str  # a state, a code, unsent, or ? where no answer came
    until: int | None  # a new deadline, or when it is due again
    delay_ms: int | None
    visibility_ms: int | None

    @property
    def is_done(self) -> bool:
        return self.outcome in ("acked", "retrying", "dead", "released", "extended")

    @property
    def is_perhaps(self) -> bool:
        return self.is_done or self.outcome == "?"


class Change(NamedTuple):
    """A cancel, move, replay or delete that named a message."""

    began: int
    ended: int
    kind: str  # C, M, R, X
    outcome: str  # ok, perhaps, no
    priority: int | None = None
    delay_ms: int | None = None


@dataclass(slots=True)
class Poll:
    """One dequeue."""

    began: int
    ended: int
    outcome: str
    wait_ms: int
    limit: int
    leases: "list[Lease]" = field(default_factory=list)


@dataclass(slots=True)
class Lease:
    message: "Message"
    poll: Poll
    tag: str
    priority: int
    attempt: int
    epoch: int
    start: int  # by the database's clock
    until: int
    enqueued: int
    after: int | None
    settles: list[Settle] = field(default_factory=list)

    @property
    def due(self) -> int:
        """At first."""
        return self.enqueued if self.after is None else max(self.after, self.enqueued)

    def deadline(self, before: int = NEVER) -> tuple[int, int]:
        """The earliest and the latest that it may have, by what was answered before."""
        earliest = latest = self.until
        for one in self.settles:
            if one.verb != "extend" or not one.is_perhaps or one.began >= before:
                continue
            if one.until is not None:
                earliest = latest = one.until
            else:
                span = (one.visibility_ms or 0) * 1000
                earliest, latest = min(earliest, one.began + span), max(latest, one.ended + span)
        return earliest, latest

    def may_end(self, before: int = NEVER, *, moved: bool = False) -> int:
        """The earliest moment at which the message may be somebody else's, by what was asked before."""
        candidates = [self.deadline(before)[0]]
        for one in self.settles:
            if not one.is_perhaps or one.began >= before or one.verb == "extend":
                continue
            if one.outcome == "retrying" and one.until is not None and not moved:
                candidates.append(one.until)
            elif one.verb != "ack" and one.outcome != "dead":
                candidates.append(one.began)
        return min(candidates)


@dataclass(slots=True)
class Message:
    id: int
    sent: list[Sent] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    @property
    def is_promised(self) -> bool:
        return any(sent.outcome == "ok" for sent in self.sent)


class History:
    """Messages that have an id which somebody was told; and by tag, what was sent without."""

    def __init__(self, topic: str, records: Iterable[list[Any]]) -> None:
        self.topic = topic
        self.messages: dict[int, Message] = {}
        self.by_tag: dict[str, list[Sent]] = {}
        self.polls: list[Poll] = []
        settles, changes = [], []
        for record in records:
            kind = record[0]
            if kind == "E":
                self._enqueued(record)
            elif kind == "D":
                self._dequeued(record)
            elif kind == "S":
                settles.append(record)
            else:
                changes.append(record)
        self._sort()
        self._add_settles(settles)
        self._add_changes(changes)

    def _enqueued(self, record: list[Any]) -> None:
        _, began, ended, rows = record
        for tag, message_id, outcome, priority, delay_ms, ttl_ms, key, max_retries in rows:
            sent = Sent(began, ended, outcome, priority, delay_ms, ttl_ms, key, max_retries)
            self.by_tag.setdefault(tag, []).append(sent)
            if message_id is not None and outcome != "elsewhere":
                self._message(message_id).sent.append(sent)

    def _dequeued(self, record: list[Any]) -> None:
        _, began, ended, outcome, wait_ms, limit, rows = record
        poll = Poll(began, ended, outcome, wait_ms, limit)
        self.polls.append(poll)
        for message_id, tag, priority, attempt, epoch, start, until, enqueued, after in rows:
            message = self._message(message_id)
            lease = Lease(message, poll, tag, priority, attempt, epoch, start, until, enqueued, after)
            message.leases.append(lease)
            poll.leases.append(lease)

    def _sort(self) -> None:
        self.polls.sort(key=lambda poll: poll.began)
        for message in self.messages.values():
            message.leases.sort(key=lambda lease: (lease.epoch, lease.start))

    def _add_settles(self, records: list[list[Any]]) -> None:
        for _, began, ended, verb, rows, delay_ms, visibility_ms in sorted(records, key=lambda record: record[1]):
            for message_id, epoch, outcome, until in rows:
                settle = Settle(began, ended, verb, outcome, until, delay_ms, visibility_ms)
                for lease in self.messages[message_id].leases if message_id in self.messages else ():
                    if lease.epoch == epoch:
                        lease.settles.append(settle)

    def _add_changes(self, records: list[list[Any]]) -> None:
        for kind, began, ended, what, outcome, *more in sorted(records, key=lambda record: record[1]):
            if kind in "CM":
                told = "perhaps" if outcome == "?" else outcome
                self._message(what).changes.append(Change(began, ended, kind, told, *more))
                continue
            told = "no" if outcome == 0 else "ok" if outcome == len(what) else "perhaps"
            for message_id in what:
                self._message(message_id).changes.append(Change(began, ended, kind, told))

    def _message(self, message_id: int) -> Message:
        message = self.messages.get(message_id)
        if message is None:
            message = self.messages[message_id] = Message(message_id)
        return message
