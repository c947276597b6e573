"""Reads what a run has written down and says what was broken, topic by topic."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults.checker import record
from tests.faults.checker.accounts import judge_end, judge_keys
from tests.faults.checker.ending import ends, leftovers
from tests.faults.checker.faults import FAULTS
from tests.faults.checker.findings import Findings
from tests.faults.checker.history import History
from tests.faults.checker.order import Span, Spans, judge_order
from tests.faults.checker.rules import judge_messages
from tests.faults.checker.schedule import Injected, injected
from tests.faults.checker.sequence import judge_sequences
from tests.faults.checker.timeline import Felt, degraded, lines, summary, timeline
from tests.faults.checker.times import SECOND
from tests.faults.checker.watch import words

LONGEST_CALL_S, LONGEST_HEALING_S = 20.0, 20.0  # a process of the API that starts takes long on a busy machine
AFTER_S = 2
EDGE_S = 0.3
PUSHED_S = 5


class Verdict:
    def __init__(self, folder: Path) -> None:
        meta = json.loads((folder / "meta.json").read_text())
        self.findings = Findings()
        self._folder, self._buffered, self._each = folder, set(meta["buffered"]), set(meta.get("each", ()))
        self._faults = injected(folder)
        health = list(words(folder))
        self.felt = timeline(folder, self._faults, health)
        self._judge_topics(meta["topics"], [*degraded(health), *_unordered(self._faults)])
        self._judge_whole()

    @property
    def is_good(self) -> bool:
        return not self.findings.broken

    def lines(self) -> Iterator[str]:
        yield "timeline (seconds; `heals in` is the last failed call after the fault's end):"
        yield from lines(self.felt)
        yield "the worst of each fault (failed calls, seconds, and messages that came again since an answer was lost):"
        yield from summary(self.felt, self.findings.again)
        counts = self.findings.counts
        yield "counts:"
        yield from (f"  {name}: {number:,}" for name, number in sorted(counts.items()) if ":" not in name)
        yield "deliveries after the first, by cause:"
        yield from (f"  {name}: {number:,}" for name, number in self.findings.causes.most_common())
        for name, number in sorted(counts.items()):
            if ":" in name:
                yield f"{name}: {number:,} times"
        yield from (f"  {words}" for words in self.findings.broken)
        yield "VERDICT: " + ("good: lost = ∅, unexpected = ∅, nothing broken" if self.is_good else "BROKEN")

    def _judge_topics(self, topics: list[str], skipped: list[Span]) -> None:
        stored: set[int] = set()
        for topic in topics:
            history = History(topic, record.lines(self._folder, topic))
            judge_messages(history, self.findings)
            edges = _edges(self._faults)
            if topic in self._buffered:
                judge_sequences(history, skipped, self.findings, edges, _forgotten(self._faults))
            else:
                judge_order(history, skipped, self.findings, edges)
            stored |= judge_end(history, ends(self._folder, topic), self.findings)
        judge_keys(record.lines(self._folder, "keys"), stored, self.findings)

    def _judge_whole(self) -> None:
        for words_ in leftovers(self._folder):
            self.findings.broke("all_is_as_before", words_)
        for problem in record.lines(self._folder, "problems"):
            self.findings.broke("no_surprises", _shown(problem))
        for one in self.felt:
            _judge_felt(one, self.findings)
        for name in sorted(self._each - {fault.name for fault in self._faults if fault.is_done}):
            self.findings.broke("each_had_its_turn", f"{name} was never done")
        if not self.findings.counts["messages promised"]:
            self.findings.broke("there_was_traffic", "no message was taken at all")


def _judge_felt(felt: Felt, findings: Findings) -> None:
    what = f"{felt.fault.name} ({felt.fault.what})"
    if not felt.fault.well_at:
        findings.broke("heals", f"{what}: /health is not OK again")
    if felt.heals_in > LONGEST_HEALING_S * SECOND:
        findings.broke("heals", f"{what}: calls failed for {felt.heals_in / SECOND:.1f} s after its end")
    if felt.longest > LONGEST_CALL_S * SECOND:
        findings.broke("nothing_hangs", f"{what}: {felt.longest_verb} took {felt.longest / SECOND:.1f} s")


def _unordered(faults: list[Injected]) -> list[Span]:
    return [(one.began, one.ended + AFTER_S * SECOND) for one in faults if not FAULTS[one.name].order_is_promised]


def _edges(faults: list[Injected]) -> list[Span]:
    """When a fault begins, and when it ends: then a poll may have a claim that works, and one that fails."""
    return [(at, at + round(EDGE_S * SECOND)) for one in faults for at in (one.began, one.ended)]


def _forgotten(faults: list[Injected]) -> list[Span]:
    """When Redis may have lost what lay in it, until that surely was pushed again; and when a process of the API ended
    beside a move: for what it had logged for the old shard, another does not wait."""
    moves = Spans((one.began, one.ended + PUSHED_S * SECOND) for one in faults if one.name.startswith("slot-"))
    return [
        (one.began, max(one.ended, one.well_at) + PUSHED_S * SECOND)
        for one in faults
        if FAULTS[one.name].forgets or (_may_end_a_connection(one) and moves.meet(one.began, one.ended))
    ]


def _may_end_a_connection(one: Injected) -> bool:
    return one.name.startswith(("api-", "dies-"))


def _shown(problem: list[Any]) -> str:
    began, _, verb, status, text = problem
    return f"{verb} at {began / SECOND:.3f} s: {status} {text}"
