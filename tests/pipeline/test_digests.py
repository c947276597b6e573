"""What tells that a file holds other rows than its shard had."""

import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline.digests import Sums, add_up, sums
from pipeline.layout import EVENT, LAYOUTS, MESSAGE, Layout

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ROWS = 50
EACH = [(layout, name) for layout in LAYOUTS.values() for name in layout.pulled.names if name not in {"id", "topic_id"}]


def rows_of(layout: Layout) -> pa.Table:
    """Of one topic, no two alike in any column; of those that may be null, one is."""
    columns = []
    for field in layout.pulled:
        values: list[object] = list(range(1, ROWS + 1))
        if field.name == "topic_id":
            values = [7] * ROWS
        elif pa.types.is_timestamp(field.type):
            values = [NOW + datetime.timedelta(microseconds=n) for n in range(ROWS)]
        elif pa.types.is_date(field.type):
            values = [NOW.date() + datetime.timedelta(n) for n in range(ROWS)]
        elif pa.types.is_boolean(field.type):
            values = [n % 2 == 1 for n in range(ROWS)]
        elif pa.types.is_string(field.type):
            values = [None, *(f"text {n}" for n in range(1, ROWS))]
        elif pa.types.is_binary(field.type):
            values = [b"%d" % n * (3_000 if n % 3 else 1) for n in range(ROWS)]
        columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=layout.pulled)


def changed(table: pa.Table, name: str, order: list[int]) -> pa.Table:
    return table.set_column(table.column_names.index(name), table.field(name), table[name].take(pa.array(order)))


@pytest.mark.parametrize(("layout", "name"), EACH, ids=[f"{layout.parent}-{name}" for layout, name in EACH])
def test_two_values_that_change_places_are_noticed(layout: Layout, name: str) -> None:
    table = rows_of(layout)
    (right,), (wrong,) = sums(table, layout), sums(changed(table, name, [1, 0, *range(2, ROWS)]), layout)
    assert (right.rows, right.min_id, right.max_id) == (wrong.rows, wrong.min_id, wrong.max_id)
    assert right.xor != wrong.xor
    assert right.sum != wrong.sum


@pytest.mark.parametrize("layout", [MESSAGE, EVENT], ids=["message", "event"])
def test_rows_that_are_lost_or_come_twice_are_noticed(layout: Layout) -> None:
    table = rows_of(layout)
    lost, doubled = table.slice(1), pa.concat_tables([table, table.slice(0, 2)])
    tripled = pa.concat_tables([table.slice(2), *[table.slice(2, 1)] * 2])  # as many rows as before
    others = [lost, doubled, tripled]
    assert all(sums(table, layout) != sums(other, layout) for other in others)


def test_sums_of_parts_come_to_the_sums_of_the_whole_in_any_order() -> None:
    table = rows_of(MESSAGE)
    whole = sums(table, MESSAGE)
    mixed = table.take(pc.sort_indices(table, sort_keys=[("payload", "descending")]))
    parts: list[Sums] = [*sums(mixed.slice(0, 20), MESSAGE), *sums(mixed.slice(20), MESSAGE)]
    assert add_up(parts) == {7: whole[0]}
