"""A death is told with the error of its own try."""

import pyarrow as pa
import pytest

from pipeline.deaths import DEAD, LAPSED, NACKED, died, of_failures

pytestmark = pytest.mark.pipeline
DAY_US = 86_400_000_000
TODAY = 20_000


def events(*rows: tuple[int, int, int, str | None, int]) -> pa.Table:
    """Of id, epoch, kind, detail and day."""
    ids, epochs, kinds, details, days = zip(*rows, strict=True)
    at = pa.array([day * DAY_US + 5 for day in days], pa.timestamp("us", tz="UTC"))
    return pa.table({
        "id": pa.array(ids, pa.int64()), "topic_id": pa.array([7] * len(ids), pa.int32()), "at": at,
        "epoch": pa.array(epochs, pa.int32()), "kind": pa.array(kinds, pa.int16()),
        "detail": pa.array(details, pa.string()),
    })  # fmt: skip


def test_the_error_is_of_the_same_message_and_try() -> None:
    table = events(
        (2, 1, NACKED, "first", TODAY), (1, 3, NACKED, "third", TODAY), (2, 2, LAPSED, None, TODAY),
        (1, 3, DEAD, "max_retries", TODAY), (2, 2, DEAD, "max_retries", TODAY), (2, 1, 8, "acked", TODAY),
        (3, 1, DEAD, "expired", TODAY), (1, 2, NACKED, "second", TODAY - 1),
    )  # fmt: skip
    assert of_failures(table).num_rows < table.num_rows
    table = of_failures(table)
    found = [(row["id"], row["reason"], row["error"]) for row in died(table, frozenset([TODAY])).to_pylist()]
    assert sorted(found) == [(1, "max_retries", "third"), (2, "max_retries", ""), (3, "expired", "")]


def test_only_deaths_of_the_days_are_told() -> None:
    table = events((1, 1, NACKED, "why", TODAY - 1), (1, 1, DEAD, "max_retries", TODAY), (2, 1, DEAD, "x", TODAY - 1))
    (row,) = died(table, frozenset([TODAY])).to_pylist()
    assert (row["id"], row["topic_id"], row["error"], row["at_us"]) == (1, 7, "why", TODAY * DAY_US + 5)


def test_no_deaths_are_no_rows() -> None:
    assert died(events((1, 1, NACKED, "why", TODAY)), frozenset([TODAY])).num_rows == 0
    assert died(events((1, 1, DEAD, "expired", TODAY)), frozenset([TODAY])).to_pylist()[0]["error"] == ""
