"""Keys of a replay lie where their messages do, and are the same for each try."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.keys import PARTS, keys
from pipeline.messages import as_sent, rendered
from shards.routing import SLOTS, slot_of

pytestmark = pytest.mark.pipeline


def test_keys_lie_in_the_part_of_their_topics_slot() -> None:
    ids = np.array([1024 * n + 7 for n in range(2_000)] + [(1 << 53) - 1])
    slots = np.array([slot_of("ns", f"t{n % 50}") for n in range(len(ids))])
    made = keys("ns", "0123456789ab", ids, slots)
    assert [slot_of("ns", key) * PARTS // SLOTS for key in made] == (slots * PARTS // SLOTS).tolist()
    assert len(set(made)) == len(ids)
    assert keys("ns", "0123456789ab", ids[5:9], slots[5:9]) == made[5:9]


def row(**more: object) -> dict[str, object]:
    plain = {"id": 7, "namespace": "n", "topic": "t", "priority": 5, "headers": None, "is_json": True, "payload": b"1",
             "retry": None, "ttl_ms": None, "max_retries": None, "traceparent": None,
             "deliver_after": None}  # fmt: skip
    return plain | more


def test_the_short_way_renders_as_the_long_one() -> None:
    rows = [row(), row(id=8, priority=9, payload=b'{"a": "\xc3\xbc"}'), row(id=9, topic="u", headers='{"a": "b"}'),
            row(id=10, is_json=False, payload=b"\x00"), row(id=11, headers='{"replay_count": "3"}')]  # fmt: skip
    slots = np.array([slot_of("n", str(one["topic"])) for one in rows])
    names = keys("n", "run", np.array([one["id"] for one in rows]), slots)
    lines = rendered(pa.Table.from_pylist(rows), "run", None, 3)
    assert lines == [*(as_sent(one, key, None, 3) for one, key in zip(rows[:4], names, strict=False)), None]
