"""What a run finds: rows of measurements, each beside what it is compared with."""

from dataclasses import dataclass, field
from statistics import median
from typing import Any

SMALL = ("us", "ms", "MB")  # units of which less is better


@dataclass(slots=True)
class Series:
    """One figure, measured once a round."""

    title: str
    values: list[float] = field(default_factory=list)
    variants: list[dict[str, float]] = field(default_factory=list)  # of a round: which of several ways gave how much
    costs: list[dict[str, Any]] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def best(self, lowest: bool = False) -> float:
        """Of all rounds."""
        return min(self.values) if lowest else max(self.values)

    def median(self) -> float:
        """Of all rounds."""
        return median(self.values)


@dataclass(slots=True)
class Row:
    """A line of the report. With `against` its value is the ratio of the two; without, the figure itself."""

    name: str
    title: str
    unit: str
    ours: Series | None = None
    against: Series | None = None
    at_least: float | None = None
    at_most: float | None = None
    goal: float | None = None
    note: str = ""
    group: str = "bars"

    @property
    def is_measured(self) -> bool:
        return bool(self.ours and self.ours.values and (self.against is None or self.against.values))

    def value(self, how: str) -> float:
        """`best` or `median`; a ratio divides the best by the best, and the median by the median."""
        assert self.ours
        mine, other = self._of(self.ours, how), self.against and self._of(self.against, how)
        return mine / other if other else mine

    def _of(self, series: Series, how: str) -> float:
        is_small = self.unit in SMALL or self.at_most is not None
        return series.best(lowest=is_small) if how == "best" else series.median()

    @property
    def holds(self) -> bool | None:
        """Whether the median keeps the bar; None where there is none, or nothing was measured."""
        if not self.is_measured or self.at_least is self.at_most is None:
            return None
        value = self.value("median")
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


LIMIT = "limit: "  # how the line of a raw limit begins


@dataclass(slots=True)
class Curve:
    """How figures change with one size: at each `x` one figure of each line."""

    name: str
    title: str
    size: str
    unit: str
    x: list[float] = field(default_factory=list)
    lines: dict[str, list[float | None]] = field(default_factory=dict)
    costs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, x: float, found: dict[str, tuple[float | None, dict[str, Any]]]) -> None:
        """A point of each line; None where it could not be measured."""
        self.x.append(x)
        for line, (value, cost) in found.items():
            self.lines.setdefault(line, []).append(value)
            self.costs.setdefault(line, []).append(cost)


Found = Row | Curve
