"""Idempotency keys of a replay, each on the shard of its message: the service takes these at half the cost.

A key ends in the first of 256 numbers that puts it into the same sixteenth of the slots as the topic, and so on the
same shard wherever the map is even. It depends on nothing else, so a run that is resumed has the same keys; where one
lies on another shard it is but dearer.
"""

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from shards.routing import SLOTS, fnv1a_32

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
DIGITS, PARTS, ENDINGS = 16, 16, 256  # an id has 53 bits
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_PRIME = np.uint32(0x01000193)


def keys(namespace: str, run: str, ids: Numbers, slots: Numbers) -> pa.Array:
    """For messages of these ids, whose topics have these slots."""
    head = f"replay:{run}:".encode()
    text = np.full((len(ids), len(head) + DIGITS + len(":00")), ord(":"), np.uint8)
    text[:, : len(head)] = np.frombuffer(head, np.uint8)
    states = np.full(len(ids), fnv1a_32(f"{namespace}:".encode() + head), np.uint32)
    for place in range(DIGITS):
        letters = (ids // 10 ** (DIGITS - 1 - place) % 10).astype(np.uint8) + np.uint8(ord("0"))
        states, text[:, len(head) + place] = _then(states, letters), letters
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
    text[:, -2:] = _HEX[np.stack([endings >> 4, endings & 15], axis=1)]
    ends = np.arange(len(ids) + 1, dtype=np.int32) * np.int32(text.shape[1])
    return pa.Array.from_buffers(pa.binary(), len(ids), [None, pa.py_buffer(ends), pa.py_buffer(text)])


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
