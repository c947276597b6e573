"""Conditions that Spark hands over: what files and shards can tell by themselves. Spark looks at the rows once more, so
a condition that is left out costs time alone."""

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import datasource as spark

from pipeline.layout import TIME, Layout

OPERATORS = {
    spark.EqualTo: "=", spark.GreaterThan: ">", spark.GreaterThanOrEqual: ">=", spark.LessThan: "<",
    spark.LessThanOrEqual: "<=", spark.In: "in",
}  # fmt: skip
Comparing = (
    spark.EqualTo | spark.GreaterThan | spark.GreaterThanOrEqual | spark.LessThan | spark.LessThanOrEqual | spark.In
)
NUMBERS = (pa.int64(), pa.int32(), pa.int16())


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column of the log, compared with values: one, but for `in`."""

    column: str
    operator: str
    values: tuple[Any, ...]

    def of_arrow(self) -> ds.Expression:
        field = ds.field(self.column)
        if self.operator == "in":
            return field.isin(list(self.values))
        (value,) = self.values
        return {
            "=": field == value, ">": field > value, ">=": field >= value, "<": field < value, "<=": field <= value
        }[self.operator]  # fmt: skip

    def of_sql(self) -> str:
        texts = ", ".join(_literal(value) for value in self.values)
        return f"{self.column} {self.operator} ({texts})"


def comparisons(layout: Layout, filters: Iterable[spark.Filter]) -> tuple[Comparison, ...]:
    return tuple(_comparisons(layout, filters))


def _comparisons(layout: Layout, filters: Iterable[spark.Filter]) -> Iterator[Comparison]:
    """On numbers and times, which mean the same to Spark, Arrow and PostgreSQL."""
    kinds = {field.name: field.type for field in layout.pulled}
    for one in filters:
        if not isinstance(one, Comparing) or len(one.attribute) != 1:
            continue
        (column,) = one.attribute
        values = one.value if isinstance(one, spark.In) else (one.value,)
        kind = kinds.get(column)
        if all(_is_number(value) if kind in NUMBERS else kind == TIME and _is_moment(value) for value in values):
            yield Comparison(column, OPERATORS[type(one)], tuple(values))


def names_chosen(filters: Iterable[spark.Filter], column: str) -> frozenset[str] | None:
    """Of the namespace or the topic, those that the filters leave; None is any."""
    chosen: frozenset[str] | None = None
    for one in filters:
        if isinstance(one, spark.EqualTo | spark.In) and one.attribute == (column,):
            values = frozenset(one.value if isinstance(one, spark.In) else (one.value,))
            chosen = values if chosen is None else chosen & values
    return chosen


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_moment(value: Any) -> bool:
    return isinstance(value, datetime.datetime) and value.tzinfo is not None


def _literal(value: Any) -> str:
    return f"timestamptz '{value.isoformat()}'" if isinstance(value, datetime.datetime) else str(int(value))
