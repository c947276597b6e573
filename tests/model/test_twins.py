"""Each rule is needed: the protocol without it has a counter-example, and the explorer finds it."""

import pytest

from tests.model.cases import CASES
from tests.model.explorer import explore
from tests.model.rules import Rules, without

BUILT = "producers while a topic is built"
TRIMMED = "a trim while another fills"
COMES_DUE = "messages come due while a topic is built"
HORIZON = "messages come due while the horizon is moved"
MOVED = "a message is moved"
LEASES = "leases end"
REPLAYED = "dead by ttl and replayed"
OTHER_FILLS = "a topic is made cold in the midst of a fill"
AHEAD = "the clock of Redis is ahead"
OLDER = "Redis comes back older"

# What the twin does, by its rule: the case that shows it, and what goes wrong there.
TWINS = {
    "an offer after the answer lets a message be overtaken": ("offer_before_answer", HORIZON, "overtakes"),
    "a nack without an offer strands": ("offer_after_nack", LEASES, "stays behind"),
    "a release without an offer strands": ("offer_after_release", LEASES, "stays behind"),
    "a lapse without an offer strands": ("offer_after_lapse", TRIMMED, "stays behind"),
    "a PATCH without an offer lets the message be overtaken": ("offer_after_patch", MOVED, "overtakes"),
    "a replay without an offer strands": ("offer_after_replay", REPLAYED, "stays behind"),
    "a PATCH that keeps the epoch hands out at the old place": ("patch_raises_epoch", MOVED, "overtakes"),
    "a replay that keeps the epoch hands out at the old place": ("replay_raises_epoch", REPLAYED, "overtakes"),
    "a settle that ignores the epoch ends another lease": ("settle_compares_epoch", LEASES, "settled the lease"),
    "attempts that do not end hand out for ever": ("attempts_end", LEASES, "is handed out 3 times"),
    "a release that spends an attempt kills too early": ("release_returns_the_attempt", LEASES, "died after 1"),
    "a failed offer that leaves the topic hot lets it be overtaken": (
        "failed_offer_makes_cold",
        "an offer fails",
        "overtakes",
    ),
    "offers that a fill does not gather are overtaken": ("fill_gathers_offers", TRIMMED, "overtakes"),
    "offers that a look ahead does not gather are overtaken": ("look_ahead_gathers_offers", COMES_DUE, "overtakes"),
    "a late clock of Redis hides what was due when it was written": (
        "due_when_written_stays_due",
        "the clock of Redis is behind",
        "overtakes",
    ),
    "a pop beyond the bound overtakes": ("pop_stops_at_bound", BUILT, "overtakes"),
    "a pop past the horizon overtakes": ("pop_checks_horizon", HORIZON, "overtakes"),
    "what comes due beyond the bound must be kept": ("pop_moves_beyond_bound", COMES_DUE, "stays behind"),
    "taken refs that never return are stranded": ("taken_returns", "a consumer is killed", "stays behind"),
    "a claim that ignores the epoch hands out at the old place": ("claim_compares_epoch", MOVED, "overtakes"),
    "a claim that ignores the due time is early": ("claim_compares_due", AHEAD, "before it is due"),
    "a claim that skips locked rows loses their refs": (
        "claim_waits_for_locks",
        "a transaction with a lock is rolled back",
        "overtakes",
    ),
    "early refs that are not offered again are stranded": ("early_refs_return", AHEAD, "stays behind"),
    "an answer without the cold remainder leaves messages behind": ("cold_remainder", BUILT, "stays behind"),
    "refs that claim nothing make an answer too short": (
        "cold_after_refs_that_claimed_nothing",
        MOVED,
        "stays behind",
    ),
    "a cold remainder from the bound passes over refs that were not asked for": (
        "cold_from_the_start_after_a_full_pop",
        MOVED,
        "overtakes",
    ),
    "a look ahead without a token revives a horizon that has holes": (
        "look_ahead_checks_token",
        "two prefetchers look ahead",
        "stays behind",
    ),
    "a look ahead that starts at the clock leaves a gap": (
        "look_ahead_reads_from_old_horizon",
        COMES_DUE,
        "overtakes",
    ),
    "a fill that ignores its token raises a bound that has holes": ("fill_checks_token", TRIMMED, "overtakes"),
    "a fill that takes any token for its own does so too": ("fill_checks_whose_token", OTHER_FILLS, "overtakes"),
    "a fill before the first look ahead leaves a gap": (
        "fill_needs_horizon",
        "a fill before the look ahead",
        "overtakes",
    ),
    "a fill by one clock misses what the other called due": ("fill_reads_by_both_clocks", AHEAD, "overtakes"),
    "a trim that leaves the token loses what it cut": ("trim_removes_token", TRIMMED, "overtakes"),
    "a trim that leaves the bound loses what it cut": ("trim_lowers_bound", TRIMMED, "overtakes"),
    "a topic made cold with its tokens has holes": ("cooling_removes_tokens", OTHER_FILLS, "overtakes"),
    "without the page a killed producer strands its message": (
        "page_from_the_start",
        "a producer is killed",
        "stranded",
    ),
    "a pop that does not know its run believes the holes of an older Redis": (
        "pop_knows_its_run",
        OLDER,
        "overtakes",
    ),
    "a remembered generation is offered to in vain": ("calls_read_the_generation", OLDER, "overtakes"),
}
# See test_a_claim_may_leave_the_state_to_the_epoch; and without a new generation, all that was built stays cold.
NOT_NEEDED = {"claim_compares_state", "new_generation"}


@pytest.mark.parametrize("twin", TWINS)
def test_without_its_rule(twin: str) -> None:
    rule, case, fault = TWINS[twin]
    found = explore(CASES[case], without(rule))
    assert fault in (found.fault or "no fault"), str(found)


def test_every_rule_has_a_twin() -> None:
    assert {rule for rule, _, _ in TWINS.values()} | NOT_NEEDED == set(Rules._fields)
