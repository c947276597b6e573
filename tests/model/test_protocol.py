"""The protocol of docs/protocol.md keeps its promises, whatever order its steps come in."""

import pytest

from tests.model.cases import CASES
from tests.model.explorer import Case, explore
from tests.model.prefetcher import fill, look_ahead
from tests.model.rules import SOUND, without
from tests.model.state import EVERYTHING
from tests.model.writers import enqueue


@pytest.mark.parametrize("name", CASES)
def test_the_protocol_holds_in_every_interleaving(name: str) -> None:
    found = explore(CASES[name])
    assert found.fault is None, str(found)
    assert found.ends


def test_the_explorer_walks_all_interleavings() -> None:
    """Two producers of two steps each: (0, 1 or 2 done) times (0, 1 or 2 done)."""
    found = explore(Case({"one": (enqueue(1),), "two": (enqueue(2),)}))
    assert (found.states, found.ends) == (9, 1)


def test_a_counter_example_is_a_shortest_one_and_the_same_each_time() -> None:
    case, twin = CASES["a message is moved"], without("claim_compares_epoch")
    found = explore(case, twin)
    assert found == explore(case, twin)
    assert [line.split("  ")[0] for line in found.story] == [
        "at first",
        "patcher patch row",
        "consumer pop",
        "consumer claim",
        "consumer done",
    ]


def test_fills_of_one_row_get_to_the_end() -> None:
    """A bound at the last row read, and not just past it, would read that row again and again."""
    world = Case({}, setup=(enqueue(1), enqueue(2), look_ahead(), fill(1), fill(1))).start(SOUND)
    assert world.topic is not None
    assert world.topic.bound == EVERYTHING


def test_a_claim_may_leave_the_state_to_the_epoch() -> None:
    """A ref is made of a waiting row only, and a lease raises the epoch: no ref ever names a leased row."""
    for name in ("a message is moved", "dead by ttl and replayed", "two prefetchers fill"):
        assert explore(CASES[name], without("claim_compares_state")).fault is None
