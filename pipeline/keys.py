"""Idempotency keys of a replay, each on the shard of its message: the service takes these at half the cost.

A key ends in the first of 256 numbers that puts it into the same sixteenth of the slots as the topic, and so on the
same shard wherever the map is even. It depends on nothing else, so a run that is resumed has the same keys; where one
lies on another shard it is but dearer.
"""

from typing import Any, TypeAlias

import numpy as np

from shards.routing import SLOTS, fnv1a_32

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
DIGITS, PARTS, ENDINGS = 16, 16, 256
_PRIME = np.uint32(0x01000193)


def keys(namespace: str, run: str, ids: Numbers, slots: Numbers) -> list[str]:
    """For messages of these ids, whose topics have these slots."""
    head = f"replay:{run}:"
    states = np.full(len(ids), fnv1a_32(f"{namespace}:{head}".encode()), np.uint32)
    for place in reversed(range(DIGITS)):
        states = _then(states, ids // 10**place % 10 + ord("0"))
    states = _then(states, ord(":"))
    endings, left = np.zeros(len(ids), np.int64), np.arange(len(ids))
    for number in range(ENDINGS):
        state = states[left]
        for letter in f"{number:02x}":
            state = _then(state, ord(letter))
        found = _part(_slot(state)) == _part(slots[left])
        endings[left[found]] = number
        left = left[~found]
        if not len(left):
            break
    return [f"{head}{one:0{DIGITS}d}:{number:02x}" for one, number in zip(ids.tolist(), endings.tolist(), strict=True)]


def _part(slots: Numbers) -> Numbers:
    found: Numbers = slots * PARTS // SLOTS
    return found


def _then(states: Numbers, letters: Any) -> Numbers:
    """As fnv1a_32 in shards/routing.py, a letter further."""
    found: Numbers = (states ^ np.asarray(letters).astype(np.uint32)) * _PRIME
    return found


def _slot(states: Numbers) -> Numbers:
    """As slot_of in shards/routing.py."""
    states = (states ^ states >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    states = (states ^ states >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    found: Numbers = ((states ^ states >> np.uint32(16)) % np.uint32(SLOTS)).astype(np.int64)
    return found
