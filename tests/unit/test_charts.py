"""Charts have scales that hold their values, gaps where nothing is known, and the numbers in their titles."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from mqueue.api.support.charts import BOTTOM, LEFT, RIGHT, TOP, Chart, Series, chart, counts, durations, sizes, spark

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def hours(count: int) -> list[datetime]:
    return [BEGIN + n * timedelta(hours=1) for n in range(count)]


def places(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]


@pytest.mark.parametrize(
    ("most", "rows"),
    [
        (0, ["0", "1", "2"]),
        (3, ["0", "2.5", "5"]),
        (999, ["0", "500", "1 k"]),
        (1000, ["0", "500", "1 k"]),
        (4_100_000, ["0", "2.5 M", "5 M"]),
    ],
)
def test_counts_begin_at_nothing_and_end_at_a_round_number(most: float, rows: list[str]) -> None:
    scale = counts([0, most], [])
    assert [scale.say(tick) for tick in scale.ticks] == rows
    assert 0 <= scale.height(most) <= 1


def test_sizes_are_told_in_their_unit() -> None:
    scale = sizes([3 * 1024 * 1024, None])
    assert [scale.say(tick) for tick in scale.ticks] == ["0 B", "2.5 MiB", "5 MiB"]


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ([3, 40], ["1 ms", "10 ms", "100 ms"]),
        ([0, None], ["0.1 ms", "1 ms"]),
        ([], ["1 ms", "10 ms"]),
        ([100, 86_400_000], ["100 ms", "10 s", "16.7 min", "1.16 d"]),
    ],
)
def test_durations_go_by_powers_of_ten(values: list[float | None], rows: list[str]) -> None:
    scale = durations(values)
    assert [scale.say(tick) for tick in scale.ticks][: len(rows)] == rows
    assert all(0 <= scale.height(value) <= 1 for value in values if value is not None)


def drawn(*series: Series) -> Chart:
    return chart("t", hours(4), series, counts(*(one.values for one in series)))


def test_a_line_breaks_where_nothing_is_known() -> None:
    found = drawn(Series("p50", "p50", [1, None, 1, 2]))
    assert re.findall("[ML]", found.drawn[0].path) == ["M", "M", "L"]
    assert places(found.drawn[0].path)[-1][1] == TOP
    assert [slot.title for slot in found.slots][:2] == [
        "2026-03-01 00:00 UTC: p50 1",
        "2026-03-01 01:00 UTC: p50 none",
    ]


def test_bars_stand_on_each_other_within_the_frame() -> None:
    found = chart("t", hours(2), [Series("a", "a", [1, 0], True), Series("b", "b", [1, 2], True)], counts([2, 2]))
    (below,), (above, alone) = (places(one.path) for one in found.drawn)
    assert below == (LEFT, BOTTOM)
    assert above == (LEFT, (TOP + BOTTOM) / 2)
    assert alone == ((LEFT + RIGHT) / 2, BOTTOM)


@pytest.mark.parametrize(
    ("times", "labels"),
    [
        (hours(24), ["Mar 1", "06:00", "12:00", "18:00"]),
        (hours(72), ["Mar 1", "Mar 2", "Mar 3"]),
        ([BEGIN + n * timedelta(days=1) for n in range(30)], ["Mar 1", "Mar 5", "Mar 9", "Mar 13"]),
    ],
)
def test_days_and_hours_are_named_and_nothing_is_cut(times: list[datetime], labels: list[str]) -> None:
    found = chart("t", times, [Series("a", "a", [1] * len(times))], counts([1]))
    assert [column.label for column in found.columns][: len(labels)] == labels
    assert all(float(column.at) < RIGHT - 30 for column in found.columns)


def test_what_is_empty_says_so() -> None:
    assert drawn(Series("a", "a", [None, 0, None, 0])).is_empty
    assert not drawn(Series("a", "a", [None, 0, 1, 0])).is_empty
    assert spark([0, 0], 10, 10) == ""
    assert spark([1, 2], 10, 10).count("z") == 2
