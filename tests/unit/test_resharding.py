"""Which slots move where, and how they are written."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shards.resharding.planning import parse_slots, plan
from shards.resharding.record import ranges
from shards.resharding.tables import mask_of
from shards.routing import SLOTS, default_owners


def after(owners: tuple[int, ...], shards: int) -> list[int]:
    changed = list(owners)
    for source, target, slots in plan(owners, shards):
        assert all(changed[slot] == source for slot in slots)
        for slot in slots:
            changed[slot] = target
    return changed


@given(st.randoms(use_true_random=False), st.integers(1, 8), st.integers(1, 8))
def test_a_plan_gives_each_shard_its_share(rng: random.Random, before: int, shards: int) -> None:
    owners = [rng.randrange(before) for _ in range(SLOTS)]
    moved = after(tuple(owners), shards)
    shares = [moved.count(shard) for shard in range(max(shards, 8))]
    assert sum(shares[:shards]) == SLOTS
    assert max(shares[:shards]) - min(shares[:shards]) <= 1


@pytest.mark.parametrize(("before", "shards"), [(2, 3), (3, 4), (2, 8), (3, 2)])
def test_a_plan_moves_no_more_than_it_has_to(before: int, shards: int) -> None:
    moved = sum(len(one.slots) for one in plan(default_owners(before), shards))
    assert moved == SLOTS * abs(shards - before) // max(shards, before)


def test_what_is_even_stays() -> None:
    assert plan(default_owners(4), 4) == []


@given(st.sets(st.integers(0, SLOTS - 1), min_size=1))
def test_slots_are_read_as_they_are_shown(slots: set[int]) -> None:
    assert set(parse_slots(ranges(sorted(slots)))) == slots
    assert {slot for slot, bit in enumerate(mask_of(slots)) if bit == "1"} == slots


@pytest.mark.parametrize("text", ["", "1-", "-1", "5-3", "1024", "a", "1,,2", "1 2"])
def test_what_is_no_slot_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not"):
        parse_slots(text)
