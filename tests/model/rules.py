"""What makes the protocol work, rule by rule. A broken twin is the protocol with one of them switched off."""

from typing import NamedTuple


class Rules(NamedTuple):
    # Writers
    offer_before_answer: bool = True
    offer_after_nack: bool = True
    offer_after_release: bool = True
    offer_after_lapse: bool = True
    offer_after_patch: bool = True
    offer_after_replay: bool = True
    patch_raises_epoch: bool = True
    replay_raises_epoch: bool = True
    settle_compares_epoch: bool = True
    attempts_end: bool = True
    release_returns_the_attempt: bool = True
    failed_offer_makes_cold: bool = True
    # An offer
    fill_gathers_offers: bool = True
    look_ahead_gathers_offers: bool = True
    due_when_written_stays_due: bool = True
    # A dequeue
    pop_stops_at_bound: bool = True
    pop_checks_horizon: bool = True
    pop_knows_its_run: bool = True
    pop_moves_beyond_bound: bool = True
    taken_returns: bool = True
    claim_compares_state: bool = True
    claim_compares_epoch: bool = True
    claim_compares_due: bool = True
    claim_waits_for_locks: bool = True
    early_refs_return: bool = True
    cold_remainder: bool = True
    cold_after_refs_that_claimed_nothing: bool = True
    cold_from_the_start_after_a_full_pop: bool = True
    # The prefetcher
    look_ahead_checks_token: bool = True
    look_ahead_reads_from_old_horizon: bool = True
    fill_checks_token: bool = True
    fill_checks_whose_token: bool = True
    fill_needs_horizon: bool = True
    fill_reads_by_both_clocks: bool = True
    trim_removes_token: bool = True
    trim_lowers_bound: bool = True
    cooling_removes_tokens: bool = True
    page_from_the_start: bool = True
    new_generation: bool = True
    calls_read_the_generation: bool = True


SOUND = Rules()


def without(*names: str) -> Rules:
    return SOUND._replace(**dict.fromkeys(names, False))
