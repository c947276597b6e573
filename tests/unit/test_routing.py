"""Routing, to the contract's vectors and spread."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shards.ids import slot_of_id
from shards.routing import SLOTS, default_owners, fmix32, fnv1a_32, slot_of


@pytest.mark.parametrize(("data", "expected"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)])
def test_fnv1a_32_matches_the_published_vectors(data: bytes, expected: int) -> None:
    assert fnv1a_32(data) == expected


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (1, 0x514E28B7), (0xFFFFFFFF, 0x81F16F39)])
def test_fmix32_is_murmurhash3s_finalizer(value: int, expected: int) -> None:
    assert fmix32(value) == expected


@pytest.mark.parametrize("shards", range(2, 17))
def test_sequential_names_spread_evenly_over_any_number_of_shards(shards: int) -> None:
    owners = default_owners(shards)
    load = [0] * shards
    for i in range(2000):
        load[owners[slot_of(f"ns-{i}", f"topic-{i}")]] += 1
    fair = 2000 / shards
    assert max(load) <= 1.35 * fair
    assert min(load) >= 0.65 * fair


@pytest.mark.parametrize("shards", range(1, 65))
def test_the_default_map_gives_every_shard_its_share_of_slots(shards: int) -> None:
    owners = default_owners(shards)
    counts = [owners.count(shard) for shard in range(shards)]
    assert sum(counts) == SLOTS
    assert max(counts) - min(counts) <= 1
    assert list(owners) == sorted(owners)


@given(st.integers(0, 2**43 - 1), st.integers(0, SLOTS - 1))
def test_an_id_names_its_slot_and_stays_below_2_to_the_53(sequence: int, slot: int) -> None:
    message_id = sequence * SLOTS + slot
    assert slot_of_id(message_id) == slot
    assert message_id < 2**53


@given(st.text(max_size=63), st.text(max_size=128))
def test_a_slot_is_the_formula_of_the_contract(namespace: str, topic: str) -> None:
    assert slot_of(namespace, topic) == fmix32(fnv1a_32(f"{namespace}:{topic}".encode())) % 1024
