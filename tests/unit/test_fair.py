"""Whose turn it is: namespaces that share calls wait for themselves, and not for each other."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqueue.engine.coalesce import LONG, Coalescer
from mqueue.engine.fair import TURN, Fair

Item = tuple[str, int]


def filled(sizes: dict[str, list[int]], weights: dict[str, int] | None = None) -> Fair[Item]:
    fair: Fair[Item] = Fair(weights or {})
    for owner, each in sizes.items():
        for number, size in enumerate(each):
            fair.add((owner, number), size, owner)
    return fair


def sent(fair: Fair[Item], sizes: dict[str, list[int]], loads: int, most: int = 1_000) -> Counter[str]:
    """How much of each went in so many loads."""
    found: Counter[str] = Counter()
    for _ in range(loads):
        for owner, number in fair.take(most).items:
            found[owner] += sizes[owner][number]
    return found


def test_one_alone_is_served_first_come_first_served_and_as_much_as_fits() -> None:
    fair = filled({"a": [1] * 2_500 + [5_000, 1]})
    taken = [[number for _, number in fair.take(1_000).items] for _ in range(5)]
    assert list(map(len, taken)) == [1_000, 1_000, 500, 1, 1]
    assert [number for each in taken for number in each] == list(range(2_502))
    assert not fair.take(1_000).items


def test_whoever_comes_to_a_flood_goes_with_the_next() -> None:
    fair = filled({"flood": [1] * 100_000, "quiet": [1]})
    load = fair.take(1_000)
    assert ("quiet", 0) in load.items
    assert load.owners == {"flood", "quiet"}
    assert load.size <= 2 * TURN


def test_it_does_not_wait_with_what_is_large() -> None:
    fair = filled({"flood": [1_000] * 50, "quiet": [1, 1]})
    assert fair.take(1_000).items == [("quiet", 0), ("quiet", 1)]
    assert fair.take(1_000).items == [("flood", 0)]


def test_whoever_is_not_being_served_comes_first() -> None:
    """Also where the flood has saved up for its turn."""
    fair = filled({"flood": [TURN + 1] * 9, "quiet": [1]})
    assert fair.take(1_000).owners == {"quiet"}
    fair.add(("quiet", 1), 1, "quiet")
    assert fair.take(1_000, {"flood"}).owners == {"quiet"}


def test_those_who_all_want_more_than_there_is_get_by_their_weights() -> None:
    sizes = {"one": [1] * 9_000, "three": [1] * 9_000, "batches": [500] * 30}
    found = sent(filled(sizes, {"three": 3}), sizes, 40)
    assert found["three"] / found["one"] == pytest.approx(3, rel=0.05)
    assert found["batches"] / found["one"] == pytest.approx(1, rel=0.3)


SIZES = st.dictionaries(st.sampled_from("abcd"), st.lists(st.integers(1, 3_000), min_size=1, max_size=20))


@given(SIZES, st.dictionaries(st.sampled_from("abcd"), st.integers(1, 100)))
def test_everything_goes_once_in_its_order_and_no_load_is_too_large(
    sizes: dict[str, list[int]], weights: dict[str, int]
) -> None:
    fair, gone = filled(sizes, weights), dict[str, list[int]]()
    while fair.size:
        load = fair.take(1_000)
        assert load.items
        assert load.size == sum(sizes[owner][number] for owner, number in load.items)
        assert load.size <= 1_000 or len(load.items) == 1
        assert load.owners == {owner for owner, _ in load.items}
        for owner, number in load.items:
            gone.setdefault(owner, []).append(number)
    assert gone == {owner: list(range(len(each))) for owner, each in sizes.items()}
    assert not fair.has_others_than([])


class Slow:
    """A call that ends when it is told to."""

    def __init__(self) -> None:
        self.loads: list[list[str]] = []
        self.ends: list[asyncio.Event] = []

    async def __call__(self, items: Sequence[str]) -> Sequence[str]:
        self.loads.append(list(items))
        self.ends.append(asyncio.Event())
        await self.ends[-1].wait()
        return items


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_quiet_one_flies_beside_the_long_flights_of_a_flood() -> None:
    call = Slow()
    coalescer: Coalescer[str, str] = Coalescer(call, most=1_000, flights=2, name="test")
    flood = [asyncio.create_task(coalescer.submit("flood", LONG, "flood")) for _ in range(20)]
    await settle()
    assert len(call.loads) == 2
    quiet = asyncio.create_task(coalescer.submit("quiet", 1, "quiet"))
    await settle()
    assert call.loads[2:] == [["quiet"]]
    more = asyncio.create_task(coalescer.submit("more", 1, "quiet"))
    await settle()
    assert len(call.loads) == 3  # no more than one beside them
    call.ends[2].set()
    assert await quiet == "quiet"
    await settle()
    assert call.loads[3:] == [["more"]]
    for _ in range(20):
        for end in call.ends:
            end.set()
        await settle()
    assert await more == "more"
    assert await asyncio.gather(*flood) == ["flood"] * 20


async def test_a_quiet_one_flies_beside_what_carries_another_alone() -> None:
    """However small it is; what carries several, each with a turn of his, is waited for."""
    call = Slow()
    coalescer: Coalescer[str, str] = Coalescer(call, most=1_000, name="test")
    callers = [asyncio.create_task(coalescer.submit("flood", 1, "flood"))]
    await settle()
    callers.append(asyncio.create_task(coalescer.submit("flood", 1, "flood")))
    await settle()
    assert call.loads == [["flood"]]
    callers.append(asyncio.create_task(coalescer.submit("quiet", 1, "quiet")))
    await settle()
    assert call.loads[1:] == [["quiet", "flood"]]
    call.ends[0].set()
    await settle()
    callers.append(asyncio.create_task(coalescer.submit("third", 1, "third")))
    await settle()
    assert len(call.loads) == 2
    call.ends[1].set()
    await settle()
    assert call.loads[2:] == [["third"]]
    call.ends[2].set()
    assert await asyncio.gather(*callers) == ["flood", "flood", "quiet", "third"]


async def test_a_cancelled_caller_is_left_out() -> None:
    call = Slow()
    coalescer: Coalescer[str, str] = Coalescer(call, most=10, name="test")
    first, second, third = (asyncio.create_task(coalescer.submit(text)) for text in "abc")
    await asyncio.sleep(0)
    second.cancel()
    await settle()
    assert call.loads == [["a", "c"]]
    call.ends[0].set()
    assert [await first, await third] == ["a", "c"]
