"""The checker's judge: a history of which nothing is wrong, and for each rule one that breaks it and nothing else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.checker import record
from tests.faults.checker.accounts import judge_end, judge_keys
from tests.faults.checker.client import Answer
from tests.faults.checker.ending import End
from tests.faults.checker.findings import Findings
from tests.faults.checker.history import History
from tests.faults.checker.order import judge_order
from tests.faults.checker.rules import judge_messages
from tests.faults.checker.schedule import Injected
from tests.faults.checker.sequence import judge_sequences
from tests.faults.checker.timeline import degraded, laid_at, timeline
from tests.faults.checker.verdict import Verdict
from tests.faults.checker.watch import Word

S = 1_000_000
Record = list[Any]


def sent(at: float, message_id: int | None, *, tag: str = "", outcome: str = "ok", **more: Any) -> Record:
    asked = {"priority": 5, "delay_ms": None, "ttl_ms": None, "key": None, "max_retries": 3} | more
    row = [tag or f"m{message_id}", message_id, outcome, *asked.values()]
    return ["E", round(at * S) - 1000, round(at * S), [row]]


def leased(at: float, *rows: Record, limit: int | None = None, outcome: str = "ok", wait_ms: int = 0) -> Record:
    began, ended = round(at * S) - 1000, round(at * S) + 1000
    return ["D", began, ended, outcome, wait_ms, len(rows) if limit is None else limit, list(rows)]


def lease(message_id: int, epoch: int, at: float, *, enqueued: float, **more: Any) -> Record:
    """For five seconds."""
    its = {"tag": f"m{message_id}", "priority": 5, "attempt": epoch, "after": None, "start": at} | more
    start, after = round(its["start"] * S), its["after"] and round(its["after"] * S)
    known = [message_id, its["tag"], its["priority"], its["attempt"], epoch]
    return [*known, start, start + 5 * S, round(enqueued * S), after]


def settled(at: float, verb: str, message_id: int, epoch: int, outcome: str, until: float | None = None) -> Record:
    row = [message_id, epoch, outcome, None if until is None else round(until * S)]
    return ["S", round(at * S) - 1000, round(at * S), verb, [row], None, 1_000]


def changed(kind: str, at: float, message_id: int, outcome: str = "ok", *more: Any) -> Record:
    return [kind, round(at * S) - 1000, round(at * S), message_id, outcome, *more]


def redone(kind: str, at: float, message_id: int, many: int | str = 1) -> Record:
    return [kind, round(at * S) - 1000, round(at * S), [message_id], many]


Spans = tuple[tuple[int, int], ...]


def broken(*records: Record, skipped: Spans = (), edges: Spans = ()) -> set[str]:
    """The rules that these records break."""
    findings = Findings()
    history = History("t", records)
    judge_messages(history, findings)
    judge_order(history, list(skipped), findings, edges)
    return {name.removeprefix("broken: ") for name in findings.counts if name.startswith("broken: ")}


def broken_end(records: list[Record], *ends: End) -> set[str]:
    findings = Findings()
    judge_end(History("t", records), ends, findings)
    return {name.removeprefix("broken: ") for name in findings.counts if name.startswith("broken: ")}


FIRST = leased(2, lease(7, 1, 2, enqueued=1))
STORY = [
    sent(1, 7, max_retries=9), FIRST, settled(3, "nack", 7, 1, "retrying", 3.5),
    leased(4, lease(7, 2, 4, enqueued=1)), settled(4.5, "release", 7, 2, "released"),
    leased(5, lease(7, 3, 5, enqueued=1, attempt=2)),  # lapses at 10
    leased(11, lease(7, 4, 11, enqueued=1, attempt=3)), settled(12, "extend", 7, 4, "extended", 13),
    leased(14, lease(7, 5, 14, enqueued=1, attempt=4)), settled(14.5, "nack", 7, 5, "dead"),
    redone("R", 15, 7),
    leased(16, lease(7, 7, 16, enqueued=1, attempt=1)), settled(17, "ack", 7, 7, "?"),
    settled(17.2, "ack", 7, 7, "acked"),
]  # fmt: skip


def test_a_long_life_breaks_nothing() -> None:
    assert broken(*STORY) == set()
    assert broken_end(STORY, End(7, "m7", "acked", 1, None, None)) == set()


def test_what_was_nacked_may_be_moved_to_an_earlier_time() -> None:
    nacked = [sent(1, 7), FIRST, settled(3, "nack", 7, 1, "retrying", 4)]
    moved = changed("M", 3.2, 7, "ok", 5, 100)
    early = leased(3.5, lease(7, 3, 3.5, enqueued=1, attempt=2))
    assert broken(*nacked, moved, early) == set()
    assert "leased_by_one" in broken(*nacked, early)


Story = list[Record]
TWINS: dict[str, list[Story]] = {
    "delivered_as_sent": [
        [FIRST],  # nobody sent it
        [sent(1, None, tag="m7", outcome="no"), FIRST],  # it was refused
        [sent(1, 7, priority=1), FIRST],
    ],
    "leased_by_one": [
        [sent(1, 7), FIRST, leased(3, lease(7, 1, 3, enqueued=1))],  # one epoch twice
        [sent(1, 7), FIRST, leased(3, lease(7, 2, 3, enqueued=1))],  # the first has two seconds left … and more
        [sent(1, 7), FIRST, settled(3, "extend", 7, 1, "extended", 12), leased(8, lease(7, 2, 8, enqueued=1))],
        [sent(1, 7), FIRST, settled(3, "nack", 7, 1, "retrying", 4), leased(3.5, lease(7, 2, 3.5, enqueued=1))],
        [sent(1, 7), FIRST, settled(3, "ack", 7, 1, "?"), leased(4, lease(7, 2, 4, enqueued=1))],
    ],
    "quiet_when_over": [
        [sent(1, 7), FIRST, settled(3, "ack", 7, 1, "acked"), leased(8, lease(7, 2, 8, enqueued=1))],
        [sent(1, 7), FIRST, settled(3, "nack", 7, 1, "dead"), leased(8, lease(7, 2, 8, enqueued=1))],
        [sent(1, 7), changed("C", 1.5, 7), FIRST],
        [sent(1, 7), redone("X", 1.5, 7), FIRST],
    ],
    "never_early": [
        [sent(1, 7, delay_ms=5_000), leased(2, lease(7, 1, 2, enqueued=1, after=6))],
        [sent(1, 7, delay_ms=5_000), leased(7, lease(7, 1, 7, enqueued=1, after=3))],
        [sent(1, 7), changed("M", 1.5, 7, "ok", None, 4_000), leased(2, lease(7, 2, 2, enqueued=1, attempt=1))],
    ],
    "never_expired": [[sent(1, 7, ttl_ms=500), FIRST]],
    "attempts_within_bounds": [
        [sent(1, 7), leased(2, lease(7, 1, 2, enqueued=1, attempt=5))],
        [sent(1, 7), FIRST, leased(8, lease(7, 2, 8, enqueued=1, attempt=1))],  # a lapse that spends none
        [sent(1, 7), FIRST, settled(3, "release", 7, 1, "released"), leased(4, lease(7, 2, 4, enqueued=1))],
    ],
    "settles_are_true": [
        [sent(1, 7), FIRST, settled(8, "ack", 7, 1, "acked")],  # its deadline was 7
        [sent(1, 7), FIRST, settled(3, "ack", 7, 1, "stale_receipt")],
        [sent(1, 7), FIRST, settled(3, "release", 7, 1, "released"), settled(4, "ack", 7, 1, "acked")],
        [
            sent(1, 7), FIRST, settled(3, "release", 7, 1, "?"), leased(4, lease(7, 2, 4, enqueued=1)),
            settled(5, "nack", 7, 1, "retrying", 6),
        ],
    ],
    "every_hand_out_is_explained": [
        [sent(1, 7), leased(2, lease(7, 2, 2, enqueued=1, attempt=1))],
        [sent(1, 7), leased(1.5, outcome="perhaps"), leased(2, lease(7, 3, 2, enqueued=1, attempt=1))],
    ],
    "strict_order": [
        [sent(1, 7, priority=1), sent(1, 8), leased(2, lease(8, 1, 2, enqueued=1))],
        [sent(1, 7), sent(1.1, 8), leased(2, lease(8, 1, 2, enqueued=1.1)), leased(3, lease(7, 1, 3, enqueued=1))],
        [sent(1, 7), sent(1.1, 8), leased(2, lease(8, 1, 2, enqueued=1.1), lease(7, 1, 2, enqueued=1))],  # within one
    ],
    "nothing_withheld": [[sent(1, 7), leased(2, limit=3)]],
}  # fmt: skip


@pytest.mark.parametrize(("rule", "story"), [(rule, story) for rule, stories in TWINS.items() for story in stories])
def test_each_rule_catches_its_broken_twins(rule: str, story: Story) -> None:
    assert rule in broken(*story)


def test_what_explains_a_hidden_epoch_breaks_nothing() -> None:
    lost = leased(1.5, outcome="perhaps")
    assert broken(sent(1, 7), lost, leased(8, lease(7, 2, 8, enqueued=1, attempt=2))) == set()
    moved = changed("M", 1.5, 7, "ok", 3, None)
    assert broken(sent(1, 7), moved, leased(8, lease(7, 2, 8, enqueued=1, attempt=1, priority=3))) == set()


def test_a_poll_that_was_under_way_may_have_had_it() -> None:
    took = leased(2, lease(7, 1, 2, enqueued=1, priority=1))
    other = leased(2, lease(8, 1, 2, enqueued=1))
    assert broken(sent(1, 7, priority=1), sent(1, 8), took, other) == set()


def test_a_poll_that_a_fault_cuts_short_had_more_in_its_hands() -> None:
    """One claim of it works and the next fails: it is answered with the first, and gives the rest back."""
    short = leased(2, lease(8, 1, 2, enqueued=1), limit=3)
    beside = leased(2, lease(9, 1, 2, enqueued=1))
    story = [
        sent(1, 8),
        sent(1, 7, priority=6),
        sent(1, 9, priority=7),
        short,
        leased(3, lease(7, 1, 3, enqueued=1, priority=6)),
    ]
    assert broken(*story) == {"nothing_withheld"}
    assert broken(*story, edges=((round(1.5 * S), round(2.5 * S)),)) == set()
    assert broken(*story, edges=((round(2.5 * S), round(2.9 * S)),)) == {"nothing_withheld"}
    passed = [sent(1, 8), sent(1, 7, priority=3), beside, leased(3, lease(7, 1, 3, enqueued=1, priority=3))]
    assert "strict_order" in broken(sent(1, 9), *passed)
    refused = leased(2, outcome="no")
    assert "strict_order" in broken(sent(1, 9), *passed, refused)
    assert broken(sent(1, 9), *passed, refused, edges=((round(1.5 * S), round(2.5 * S)),)) == set()


def test_order_is_not_judged_while_health_says_degraded_or_a_poll_is_lost() -> None:
    story = [sent(1, 7, priority=1), sent(1, 8), leased(2, lease(8, 1, 2, enqueued=1))]
    assert broken(*story, skipped=((1 * S, 3 * S),)) == set()
    assert broken(*story, leased(1.9, outcome="perhaps")) == set()
    stuck = ["D", 1 * S, round(3.5 * S), "ok", 0, 1, []]
    assert broken(*story, leased(9, lease(7, 1, 9, enqueued=1, priority=1)), stuck) == set()
    assert broken(*story, skipped=((5 * S, 6 * S),)) == {"strict_order"}
    words = [
        Word(2 * S, 2 * S, "degraded", []),
        Word(int(2.1 * S), int(2.1 * S), "degraded", []),
        Word(9 * S, 9 * S, "OK", []),
    ]
    assert degraded(words) == [(1 * S, int(3.1 * S))]


def out_of_sequence(*records: Record, edges: Spans = (), forgotten: Spans = ()) -> set[str]:
    """What these records of a buffered topic break."""
    findings = Findings()
    judge_sequences(History("t", records), [], findings, list(edges), forgotten)
    return {name.removeprefix("broken: ") for name in findings.counts if name.startswith("broken: ")}


ONE_AFTER_THE_OTHER = [sent(1, 7), sent(1.1, 8)]
OTHER_FIRST = [leased(2, lease(8, 1, 2, enqueued=1)), leased(3, lease(7, 1, 3, enqueued=1))]


@pytest.mark.parametrize(
    "story",
    [
        [*ONE_AFTER_THE_OTHER, *OTHER_FIRST],
        [*ONE_AFTER_THE_OTHER, leased(2, lease(8, 1, 2, enqueued=1), lease(7, 1, 2, enqueued=1))],
        [sent(1, 9), *ONE_AFTER_THE_OTHER, leased(1.5, lease(9, 1, 1.5, enqueued=1)), *OTHER_FIRST],
        [
            ["E", 1 * S, 1 * S + 1000, [sent(1, 7)[3][0], sent(1, 8)[3][0]]],  # in one request
            leased(2, lease(8, 1, 2, enqueued=1), lease(7, 1, 2, enqueued=1)),
        ],
    ],
)
def test_what_overtakes_its_producer_s_earlier_message_is_seen(story: Story) -> None:
    assert out_of_sequence(*story) == {"one_producers_order"}


@pytest.mark.parametrize(
    "story",
    [
        [sent(1, 7, priority=9), sent(1.1, 8), OTHER_FIRST[0], leased(3, lease(7, 1, 3, enqueued=1, priority=9))],
        [sent(1, 7, delay_ms=500), sent(1.1, 8), *OTHER_FIRST],
        [sent(1, 7, outcome="perhaps"), sent(1.1, 8), *OTHER_FIRST],
        [sent(1, 7), sent(1, 8), *OTHER_FIRST],  # at the same time
        [*ONE_AFTER_THE_OTHER, OTHER_FIRST[0], leased(3, lease(7, 2, 3, enqueued=1))],  # it had been out before
        [*ONE_AFTER_THE_OTHER, changed("M", 1.5, 7, "ok", None, 100), *OTHER_FIRST],
        [*ONE_AFTER_THE_OTHER, leased(1.9, outcome="perhaps"), *OTHER_FIRST],
        [sent(1, 7, tag="m1-1"), sent(1.1, 8, tag="m2-1"), leased(2, lease(8, 1, 2, enqueued=1, tag="m2-1")),
         leased(3, lease(7, 1, 3, enqueued=1, tag="m1-1"))],  # of two producers
    ],
)  # fmt: skip
def test_what_may_have_gone_before_breaks_no_sequence(story: Story) -> None:
    assert out_of_sequence(*story) == set()


def test_sequences_are_not_judged_where_redis_may_have_forgotten_them() -> None:
    story = [*ONE_AFTER_THE_OTHER, *OTHER_FIRST]
    assert out_of_sequence(*story, forgotten=((round(1.5 * S), 2 * S),)) == set()
    assert out_of_sequence(*story, forgotten=((5 * S, 6 * S),)) == {"one_producers_order"}


ACKED = [sent(1, 7), FIRST, settled(3, "ack", 7, 1, "acked")]
ENDS: list[tuple[str, Story, tuple[End, ...]]] = [
    ("nothing_lost", ACKED, ()),
    ("nothing_lost", [sent(1, 7)], (End(7, "m7", "acked", 1, None, None),)),
    ("nothing_lost", [sent(1, 7)], (End(7, "m7", "cancelled", 0, None, None),)),
    ("nothing_lost", [sent(1, 7)], (End(7, "m7", "deleted", 0, None, None),)),
    ("nothing_lost", [sent(1, 7)], (End(7, "m7", "dead", 2, "max_retries", None),)),
    ("nothing_lost", [sent(1, 7)], (End(7, "m7", "dead", 0, "expired", None),)),
    ("nothing_lost", [sent(1, 7)], (End(7, "m7", "dead", 1, "rejected", None),)),
    ("nothing_stranded", [sent(1, 7)], (End(7, "m7", "ready", 0, None, None),)),
    ("acks_hold", ACKED, (End(7, "m7", "dead", 4, "max_retries", None),)),
    ("cancels_hold", [sent(1, 7), changed("C", 2, 7)], (End(7, "m7", "dead", 4, "max_retries", None),)),
    ("nothing_unexpected", ACKED, (End(7, "m7", "acked", 1, None, None), End(9, "m9", "acked", 1, None, None))),
    ("nothing_unexpected", ACKED, (End(7, "m7", "acked", 1, None, None), End(9, "m7", "acked", 1, None, None))),
    ("nothing_unexpected", [sent(1, None, tag="m7", outcome="no")], (End(7, "m7", "ready", 0, None, None),)),
]


@pytest.mark.parametrize(("rule", "story", "ends"), ENDS)
def test_a_wrong_end_is_seen(rule: str, story: Story, ends: tuple[End, ...]) -> None:
    assert rule in broken_end(story, *ends)


def test_ends_that_have_their_cause_are_right() -> None:
    perhaps = sent(1, None, tag="m7", outcome="perhaps")
    assert broken_end([perhaps], End(7, "m7", "dead", 4, "max_retries", None)) == set()
    assert broken_end([perhaps]) == set()
    assert broken_end([sent(1, 7, ttl_ms=9)], End(7, "m7", "dead", 0, "expired", None)) == set()
    assert broken_end([sent(1, 7), changed("C", 2, 7, "?")], End(7, "m7", "cancelled", 0, None, None)) == set()


def test_a_key_names_one_message() -> None:
    def of(*lines: tuple[str, int, str], stored: set[int]) -> set[str]:
        findings = Findings()
        judge_keys([[0, 1, key, "t", number, outcome] for key, number, outcome in lines], stored, findings)
        return {name.removeprefix("broken: ") for name in findings.counts if name.startswith("broken: ")}

    assert of(("k", 7, "ok"), ("k", 7, "ok"), ("k", 9, "perhaps"), stored={7}) == set()
    assert of(("k", 7, "ok"), ("k", 8, "ok"), stored={7, 8}) == {"one_message_a_key"}
    assert of(("k", 7, "ok"), stored=set()) == {"nothing_lost"}


Write = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path) -> Write:
    """A run's folder with one fault, from second 10 to 12."""

    def write(story: Story, ends: list[End], calls: list[tuple[str, float, float, int]], **more: Any) -> None:
        recorder = record.Recorder(tmp_path, 0)
        for line in story:
            recorder.line("t", *line)
        for verb, began, ended, status in calls:
            recorder.call(verb, 0, Answer(round(began * S), round(ended * S), status, None, True))
        for problem in more.get("problems", []):
            recorder.line("problems", *problem)
        recorder.close()
        fault = Injected(
            "redis-killed", "redis", 10 * S, 12 * S, more.get("well_at", 13 * S), more.get("is_done", True)
        )
        files = {
            "meta.json": {"topics": ["t"], "buffered": more.get("buffered", []), "each": more.get("each", [])},
            "faults.jsonl": fault,
            "health.jsonl": Word(11 * S, 11 * S, "degraded", ["redis"]),
            "leftovers.json": more.get("leftovers", []),
        }
        for name, content in files.items():
            (tmp_path / name).write_text(json.dumps(content) + "\n")
        (tmp_path / "end-t.jsonl").write_text("".join(json.dumps(end) + "\n" for end in ends))

    return write


GOOD_END = [End(7, "m7", "acked", 1, None, None)]


def test_a_whole_run_is_judged_from_its_files(run: Write, tmp_path: Path) -> None:
    run(
        ACKED,
        GOOD_END,
        [("enqueue", 9, 9.1, 200), ("ack", 10.5, 10.6, 503), ("ack", 12.2, 12.5, 503), ("ack", 13, 13.2, 200)],
    )
    verdict = Verdict(tmp_path)
    assert verdict.is_good, list(verdict.lines())
    (felt,) = verdict.felt
    assert (felt.failed, felt.first_failure, felt.heals_in, felt.told_in) == (2, 600_000, 500_000, 1 * S)


def test_buffered_topics_are_judged_by_their_producers_order(run: Write, tmp_path: Path) -> None:
    both = [End(number, f"m{number}", "acked", 1, None, None) for number in (7, 8)]
    acks = [settled(4, "ack", number, 1, "acked") for number in (7, 8)]
    run([*ONE_AFTER_THE_OTHER, *OTHER_FIRST, *acks], both, [("ack", 11, 11.2, 200)], buffered=["t"])
    assert [words.partition(":")[0] for words in Verdict(tmp_path).findings.broken] == ["one_producers_order"]


@pytest.mark.parametrize(
    ("rule", "more"),
    [
        ("heals", {"well_at": 0}),
        ("all_is_as_before", {"leftovers": ["one too many"]}),
        ("no_surprises", {"problems": [[0, 1, "ack", 500, "internal"]]}),
        ("heals", {"calls": [("ack", 11, 11.2, 200), ("ack", 40, 40.1, 503), ("ack", 41, 41.1, 200)]}),
        ("nothing_hangs", {"calls": [("ack", 11, 32, 200), ("ack", 33, 33.1, 200)]}),
        ("there_was_traffic", {"story": [], "ends": []}),
        ("each_had_its_turn", {"each": ["redis-killed", "redis-old"]}),
        ("each_had_its_turn", {"each": ["redis-killed"], "is_done": False}),
    ],
)
def test_what_concerns_the_whole_run_is_seen(run: Write, tmp_path: Path, rule: str, more: dict[str, Any]) -> None:
    story, ends = more.pop("story", ACKED), more.pop("ends", GOOD_END)
    run(story, ends, more.pop("calls", [("ack", 11, 11.2, 200), ("ack", 13, 13.2, 200)]), **more)
    assert any(words.startswith(rule) for words in Verdict(tmp_path).findings.broken)


def test_what_comes_again_is_laid_at_the_last_fault_before_it(tmp_path: Path) -> None:
    felt = timeline(tmp_path, [Injected("one", "", 10, 20, 21), Injected("two", "", 30, 40, 41)], [])
    assert [laid_at(felt, moment) for moment in (5, 10, 29, 30, 99)] == ["", "one", "one", "two", "two"]


def test_a_line_that_a_kill_has_cut_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "t-0.jsonl").write_text('["D",1]\n["D",')
    assert list(record.lines(tmp_path, "t")) == [["D", 1]]
    (tmp_path / "calls-0").write_bytes(record.CALL.pack(1, 2, 0, 0, 0) + b"half")
    assert len(list(record.calls(tmp_path))) == 1
    assert timeline(tmp_path, [], []) == []
