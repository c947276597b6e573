"""Which slot a topic or a key belongs to, and how slots spread over shards at first. Nothing else computes a shard.

Plain FNV-1a leaves whole shards empty on keys such as `ns-1:topic-1`, `ns-2:topic-2`: its last step is a
multiplication, so the upper bits barely see the last characters. MurmurHash3's finalizer mixes them.
"""

from functools import lru_cache

SLOTS = 1024
_LAST = 8
_FNV_OFFSET, _FNV_PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF


def fnv1a_32(data: bytes, value: int = _FNV_OFFSET) -> int:
    """Going on from the value of what came before."""
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & _MASK
    return value


def fmix32(value: int) -> int:
    value ^= value >> 16
    value = value * 0x85EBCA6B & _MASK
    value ^= value >> 13
    value = value * 0xC2B2AE35 & _MASK
    return value ^ value >> 16


_head = lru_cache(maxsize=1024)(fnv1a_32)  # what the keys of a sender begin with


@lru_cache(maxsize=4096)
def _before(data: bytes) -> int:
    """The value of all but the last letters: keys that are sent together often differ in these alone."""
    return fnv1a_32(data[-_LAST:], _head(data[:-_LAST]))


def slot_of_key(namespace: str, key: str) -> int:
    """The slot of an idempotency key inside its namespace."""
    data = f"{namespace}:{key}".encode()
    return fmix32(fnv1a_32(data[-_LAST:], _before(data[:-_LAST]))) % SLOTS


@lru_cache(maxsize=131_072)
def slot_of(namespace: str, topic: str) -> int:
    """The slot of a topic inside its namespace. Topics come again, keys seldom do."""
    return slot_of_key(namespace, topic)


def default_owners(shards: int) -> tuple[int, ...]:
    """The even map of a new deployment: slot by slot, the shard that owns it."""
    return tuple(slot * shards // SLOTS for slot in range(SLOTS))
