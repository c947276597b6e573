"""What must hold at the end: nothing lost, nothing that nobody sent, every end with its cause, one message a key."""

from collections.abc import Iterable, Iterator
from typing import Any

from tests.faults.checker.ending import End
from tests.faults.checker.findings import Findings
from tests.faults.checker.history import History, Message

WAITS = ("ready", "scheduled", "leased")


def judge_end(history: History, ends: Iterable[End], findings: Findings) -> set[int]:
    """The ids of messages that have a key: those are accounted for over all topics."""
    found = {end.id: end for end in ends}
    for message in history.messages.values():
        end = found.get(message.id)
        if end is None:
            if message.is_promised:
                findings.broke("nothing_lost", f"{history.topic}: {message.id} was answered 200, and is not there")
            continue
        for rule, words in _wrong_end(message, end):
            findings.broke(rule, f"{history.topic}: {message.id} {words}")
    tags: set[str] = set()
    for end in found.values():
        findings.counts[f"ended {end.state}"] += 1
        _judge_row(history, end, tags, findings)
    return {end.id for end in found.values() if end.key is not None}


def judge_keys(lines: Iterable[list[Any]], stored: set[int], findings: Findings) -> None:
    """One message a key, whoever sends it, and whatever topic he names."""
    ids: dict[str, set[int]] = {}
    for _, _, key, _, message_id, outcome in lines:
        if outcome in ("ok", "elsewhere"):
            ids.setdefault(key, set()).add(message_id)
    findings.counts["keys"] = len(ids)
    for key, named in ids.items():
        if len(named) > 1:
            findings.broke("one_message_a_key", f"{key} was answered {sorted(named)}")
        for message_id in named - stored:
            findings.broke("nothing_lost", f"{message_id} of key {key} was answered 200, and is not there")


def _judge_row(history: History, end: End, tags: set[str], findings: Findings) -> None:
    sent = [one.outcome for one in history.by_tag.get(end.tag, ())]
    if not sent or set(sent) == {"no"}:
        what = "was refused" if sent else "was never sent"
        findings.broke("nothing_unexpected", f"{history.topic}: {end.id} ({end.tag}) is there and {what}")
    if end.tag in tags:
        findings.broke("nothing_unexpected", f"{history.topic}: {end.tag} was added twice")
    tags.add(end.tag)


def _wrong_end(message: Message, end: End) -> Iterator[tuple[str, str]]:
    outcomes = {(one.verb, one.outcome) for lease in message.leases for one in lease.settles}
    changes = {(change.kind, change.outcome) for change in message.changes}
    if end.state in WAITS:
        yield "nothing_stranded", f"still is {end.state} after the drain"
    if end.state == "acked" and not outcomes & {("ack", "acked"), ("ack", "?")}:
        yield "nothing_lost", "is acked, and nobody did it"
    if end.state == "cancelled" and not changes & {("C", "ok"), ("C", "perhaps")}:
        yield "nothing_lost", "is cancelled, and nobody did it"
    if end.state == "deleted" and not changes & {("X", "ok"), ("X", "perhaps")}:
        yield "nothing_lost", "is deleted, and nobody did it"
    if end.state == "dead":
        yield from _wrong_death(message, end, outcomes)
    if ("ack", "acked") in outcomes and end.state != "acked":
        yield "acks_hold", f"was acked, and ended {end.state}"
    if ("C", "ok") in changes and end.state != "cancelled":
        yield "cancels_hold", f"was cancelled, and ended {end.state}"


def _wrong_death(message: Message, end: End, outcomes: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    retries = max((one.max_retries for one in message.sent), default=None)
    if end.reason == "max_retries" and retries is not None and end.attempts != 1 + retries:
        yield "nothing_lost", f"died after {end.attempts} of {1 + retries} attempts"
    if end.reason == "expired" and not any(one.ttl_ms for one in message.sent) and message.sent:
        yield "nothing_lost", "expired, and has no ttl"
    if end.reason == "rejected" and not outcomes & {("nack", "dead"), ("nack", "?")}:
        yield "nothing_lost", "was rejected, and nobody did it"
