"""Arrays that we write ourselves are read by PostgreSQL as what they were."""

from datetime import UTC, datetime
from typing import Any

import pytest

from shards.arrays import Array, Bools, Byteas, Int2s, Int4s, Int8s, Jsonbs, Texts, Timestamps, array

AT = datetime(2026, 11, 18, 15, 4, 5, 678901, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "type_", "values"),
    [
        (Int2s, "smallint", [0, -1, 255, 32767]),
        (Int4s, "integer", [0, -1, 2**31 - 1, None]),
        (Int8s, "bigint", [2**53 - 1, -(2**63), None]),
        (Bools, "boolean", [True, False, None]),
        (Byteas, "bytea", [b"", b"\x00\xff" * 500, b"plain"]),
        (Texts, "text", ["", "grün", "'{}\",\\", None, "x" * 10_000]),
        (Timestamps, "timestamptz", [AT, datetime(1970, 1, 1, tzinfo=UTC), None]),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_values_arrive(shard_0: Any, kind: type[Array], type_: str, values: list[Any]) -> None:
    shard_0.execute("SET timezone = 'UTC'")
    for some in (values, values[:1]):
        row = shard_0.execute(f"SELECT %s::{type_}[]", [array(kind, some)]).fetchone()
        assert row[0] == some


def test_json_arrives(shard_0: Any) -> None:
    row = shard_0.execute("SELECT %s::jsonb[]", [array(Jsonbs, ['{"a": "ü"}', None])]).fetchone()
    assert row[0] == [{"a": "ü"}, None]


def test_nothing_but_nulls_is_null_and_is_filled_up(shard_0: Any) -> None:
    assert array(Texts, [None, None]) is None
    parameters = [array(Int4s, [1, 2]), array(Texts, [None, None])]
    assert shard_0.execute("SELECT * FROM unnest(%s::integer[], %s::text[])", parameters).fetchall() == [
        (1, None),
        (2, None),
    ]
