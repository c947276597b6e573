"""Which slots have to move so that every shard has its share: as few as that takes."""

from typing import NamedTuple

from shards.routing import SLOTS


class Transfer(NamedTuple):
    source: int
    target: int
    slots: tuple[int, ...]


def plan(owners: "tuple[int, ...]", shards: int) -> list[Transfer]:
    """From those that have more than their share, or that shall have none, to those that have less."""
    have: dict[int, list[int]] = {shard: [] for shard in range(max(shards, max(owners) + 1))}
    for slot, owner in enumerate(owners):
        have[owner].append(slot)
    share = {shard: SLOTS // shards + (shard < SLOTS % shards) if shard < shards else 0 for shard in have}
    found: dict[tuple[int, int], list[int]] = {}
    spare = [(shard, slot) for shard in have for slot in have[shard][share[shard] :]]
    for target, slots in have.items():
        while len(slots) < share[target]:
            source, slot = spare.pop()
            slots.append(slot)
            found.setdefault((source, target), []).append(slot)
    return [Transfer(source, target, tuple(sorted(slots))) for (source, target), slots in sorted(found.items())]


def parse_slots(text: str) -> list[int]:
    """0-99,200"""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(f"{part!r} is not a slot, or a range such as 0-99")
        low, high = int(first), int(last or first)
        if not 0 <= low <= high < SLOTS:
            raise ValueError(f"{part!r} is not within 0 to {SLOTS - 1}")
        found.update(range(low, high + 1))
    return sorted(found)
