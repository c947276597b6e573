"""What clients felt of each fault: how many calls failed, for how long, and how long the longest took."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.faults.checker.order import Span, merged
from tests.faults.checker.record import VERBS, WELL, Call, calls
from tests.faults.checker.schedule import Injected
from tests.faults.checker.times import SECOND
from tests.faults.checker.watch import Word

MARGIN = SECOND


class Felt(NamedTuple):
    fault: Injected
    failed: int
    first_failure: int | None  # after its beginning
    heals_in: int  # from its end to the last failure
    longest: int
    longest_verb: str
    told_in: int | None  # from its beginning until /health said degraded


def timeline(folder: Path, faults: list[Injected], words: list[Word]) -> list[Felt]:
    """Failures between the beginning of a fault and that of the next are laid at its door."""
    felt = []
    noted = sorted(calls(folder), key=lambda call: call.ended)
    at = [call.ended for call in noted]
    for number, fault in enumerate(faults):
        later = [other.began for other in faults[number + 1 :] if other.began > fault.ended]
        until = min(later, default=noted[-1].ended if noted else fault.ended)
        during = noted[bisect_left(at, fault.began) : bisect_left(at, until)]
        felt.append(_felt(fault, during, words, until))
    return felt


def _felt(fault: Injected, during: list[Call], words: list[Word], until: int) -> Felt:
    failed = [call for call in during if call.outcome != WELL]
    longest = max(during, key=lambda call: call.ended - call.began, default=None)
    told = [word.ended for word in words if word.status == "degraded" and fault.began <= word.ended < until]
    return Felt(
        fault,
        len(failed),
        failed[0].ended - fault.began if failed else None,
        max(0, failed[-1].ended - fault.ended) if failed else 0,
        longest.ended - longest.began if longest else 0,
        VERBS[longest.verb] if longest else "",
        told[0] - fault.began if told else None,
    )


def degraded(words: Iterable[Word]) -> list[Span]:
    """When /health said so, with the time between two questions."""
    return merged((word.began - MARGIN, word.ended + MARGIN) for word in words if word.status == "degraded")


def summary(felt: list[Felt], again: Iterable[int]) -> Iterable[str]:
    """The worst of each fault where it came alone, or else at all, and how many messages came again after any of these,
    since an answer had been lost."""
    by_name: dict[str, list[Felt]] = {}
    for one in felt:
        by_name.setdefault(one.fault.name, []).append(one)
    twice = Counter(laid_at(felt, moment) for moment in again)
    yield f"  {'fault':24} {'alone':>5} {'failed':>7} {'heals in':>9} {'longest call':>13} {'told in':>8} {'again':>6}"
    for name, each in sorted(by_name.items()):
        alone = [one for one in each if not any(_overlap(one.fault, other.fault) for other in felt)]
        all_of = alone or each
        told = [one.told_in for one in all_of if one.told_in is not None]
        yield (
            f"  {name:24} {len(alone):5} {max(one.failed for one in all_of):7} "
            f"{max(one.heals_in for one in all_of) / SECOND:9.2f} {max(one.longest for one in all_of) / SECOND:13.2f} "
            f"{max(told) / SECOND if told else 0:8.2f} {twice[name]:6}"
        )


def _overlap(one: Injected, other: Injected) -> bool:
    return one is not other and one.began < other.ended and other.began < one.ended


def laid_at(felt: list[Felt], moment: int) -> str:
    """The fault that began last before it."""
    before = [one.fault for one in felt if one.fault.began <= moment]
    return max(before, key=lambda fault: fault.began).name if before else ""


def lines(felt: list[Felt]) -> Iterable[str]:
    head = f"  {'fault':24} {'what':28} {'at':>10} {'held':>6} {'failed':>7} {'first':>7} {'heals in':>9}"
    yield head + f" {'longest call':>20} {'told in':>8}"
    for one in felt:
        first = "-" if one.first_failure is None else f"{one.first_failure / SECOND:.2f}"
        told = "-" if one.told_in is None else f"{one.told_in / SECOND:.2f}"
        held = (one.fault.ended - one.fault.began) / SECOND
        yield (
            f"  {one.fault.name:24} {one.fault.what[:28]:28} {one.fault.began / SECOND:10.3f} {held:6.1f} "
            f"{one.failed:7} {first:>7} {one.heals_in / SECOND:9.2f} "
            f"{one.longest / SECOND:10.2f} {one.longest_verb:>9} {told:>8}"
        )
