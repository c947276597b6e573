"""Keys of a replay lie where their messages do, and are the same for each try."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.keys import PARTS, keys
from pipeline.messages import as_sent, rendered, slots_of
from shards.routing import SLOTS, slot_of

pytestmark = pytest.mark.pipeline


def test_keys_lie_in_the_part_of_their_topics_slot() -> None:
    ids = np.array([1024 * n + 7 for n in range(2_000)] + [(1 << 53) - 1])
    slots = np.array([slot_of("ns", f"t{n % 50}") for n in range(len(ids))])
    made = [key.decode() for key in keys("ns", "0123456789ab", ids, slots).to_pylist()]
    assert all(key.startswith(f"replay:0123456789ab:{number:016d}:") for key, number in zip(made, ids, strict=True))
    assert [slot_of("ns", key) * PARTS // SLOTS for key in made] == (slots * PARTS // SLOTS).tolist()
    assert len(set(made)) == len(ids)
    assert keys("ns", "0123456789ab", ids[5:9], slots[5:9]).to_pylist() == [key.encode() for key in made[5:9]]


def row(**more: object) -> dict[str, object]:
    plain = {"id": 7, "namespace": "n", "topic": "t", "topic_id": 1, "priority": 5, "headers": None, "is_json": True,
             "payload": b"1", "retry": None, "ttl_ms": None, "max_retries": None, "traceparent": None,
             "deliver_after": None}  # fmt: skip
    return plain | more


ROWS = [
    row(),
    row(id=8, priority=9, payload=b'{"a": "\xc3\xbc"}'),
    row(id=9, topic="u", topic_id=2, headers='{"a": "b"}'),
    row(id=10, is_json=False, payload=b"\x00"),
    row(id=12, topic="u", topic_id=2, ttl_ms=5, priority=9),
    row(id=13, topic="u", topic_id=2, priority=9),
    row(id=11, headers='{"replay_count": "3"}'),
]


@pytest.mark.parametrize("into", [None, "elsewhere"])
@pytest.mark.parametrize("order", [1, -1])
def test_the_short_way_renders_as_the_long_one(into: str | None, order: int) -> None:
    rows = ROWS[::order]
    table = pa.Table.from_pylist(rows)
    slots = slots_of(table, into)
    assert slots.tolist() == [slot_of("n", into or str(one["topic"])) for one in rows]
    made = keys("n", "run", np.array([one["id"] for one in rows]), slots)
    names = [key.decode() for key in made.to_pylist()]
    lines = rendered(table, slots, "run", into, 3).to_pylist()
    expected = [None if one["id"] == 11 else as_sent(one, key, into, 3) for one, key in zip(rows, names, strict=True)]
    assert lines == expected
    assert rendered(table, slots, "run", into, 0).to_pylist() == [None] * len(rows)
    assert rendered(table.slice(0, 0), slots[:0], "run", into, 3).to_pylist() == []
