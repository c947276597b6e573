"""Charts that the server draws as SVG: no script has to run for them, and the numbers are in their titles."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

WIDTH, HEIGHT = 460, 170
LEFT, RIGHT, TOP, BOTTOM = 54, 456, 8, 148
MOST_LABELS = 8
LABEL = 36  # how wide one is
Values = Sequence[float | None]


class Series(NamedTuple):
    label: str
    style: str  # of CSS: mq-s-…
    values: Values
    is_bars: bool = False


class Mark(NamedTuple):
    at: str  # in the drawing
    label: str


class Slot(NamedTuple):
    x: str
    width: str
    title: str


class Drawn(NamedTuple):
    label: str
    style: str
    path: str
    is_bars: bool


class Chart(NamedTuple):
    title: str
    drawn: list[Drawn]
    rows: list[Mark]
    columns: list[Mark]
    slots: list[Slot]
    is_empty: bool


class Scale(NamedTuple):
    height: Callable[[float], float]  # from 0, the bottom, to 1
    ticks: list[float]
    say: Callable[[float], str]


def chart(title: str, times: Sequence[datetime], series: Sequence[Series], scale: Scale) -> Chart:
    """Bars are stacked, in their order."""
    width = (RIGHT - LEFT) / len(times)
    drawn, below = [], [0.0] * len(times)
    for one in series:
        if one.is_bars:
            path = _bars(one.values, below, width, scale)
            below = [base + (value or 0) for base, value in zip(below, one.values, strict=True)]
        else:
            path = _line(one.values, width, scale)
        drawn.append(Drawn(one.label, one.style, path, one.is_bars))
    slots = [_slot(number, time, width, series, scale.say) for number, time in enumerate(times)]
    rows = [Mark(_y(tick, scale), scale.say(tick)) for tick in scale.ticks]
    is_empty = not any(value for one in series for value in one.values)
    return Chart(title, drawn, rows, _columns(times, width), slots, is_empty)


def counts(*values: Values) -> Scale:
    top = _round_up(max(_most(values), 2))
    return Scale(lambda value: value / top, [0, top / 2, top], short)


def sizes(*values: Values) -> Scale:
    most = max(_most(values), 2)
    unit = 1024 ** int(math.log(most, 1024))
    top = _round_up(most / unit) * unit
    return Scale(lambda value: value / top, [0, top / 2, top], size)


def durations(*values: Values) -> Scale:
    """Logarithmic: a wait may be of a millisecond or of a day."""
    known = [max(value, 0.1) for some in values for value in some if value is not None]
    low = math.floor(math.log10(min(known, default=1)))
    high = max(math.ceil(math.log10(max(known, default=10))), low + 1)
    step = -((low - high) // 5)  # six rows at most
    ticks = [10.0**power for power in range(low, high + 1, step)]
    return Scale(lambda value: (math.log10(max(value, 10**low)) - low) / (high - low), ticks, duration)


def spark(values: Sequence[int], width: int, height: int) -> str:
    """Bars alone."""
    most, step = max(values, default=0) or 1, width / max(len(values), 1)
    return " ".join(
        f"M{number * step:.1f} {height}v{-max(height * value / most, 1.5):.1f}h{max(step - 1, 0.8):.1f}V{height}z"
        for number, value in enumerate(values)
        if value
    )


def short(value: float) -> str:
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g}"


def size(value: float) -> str:
    for unit, factor in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g} B"


def duration(milliseconds: float) -> str:
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds >= length:
            return f"{milliseconds / length:.3g} {unit}"
    return f"{milliseconds:.3g} ms"


def _most(values: Sequence[Values]) -> float:
    return max((value for some in values for value in some if value is not None), default=0)


def _round_up(value: float) -> float:
    """To 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _y(value: float, scale: Scale) -> str:
    return f"{BOTTOM - scale.height(value) * (BOTTOM - TOP):.1f}"


def _bars(values: Values, below: Sequence[float], width: float, scale: Scale) -> str:
    bar = max(width - 1, width * 0.8)
    return " ".join(
        f"M{LEFT + number * width:.1f} {_y(base, scale)}V{_y(base + value, scale)}h{bar:.1f}V{_y(base, scale)}z"
        for number, (value, base) in enumerate(zip(values, below, strict=True))
        if value
    )


def _line(values: Values, width: float, scale: Scale) -> str:
    """Broken where there is no value. One alone is a dot."""
    parts, before = [], None
    for number, value in enumerate(values):
        if value is not None:
            place = f"{LEFT + (number + 0.5) * width:.1f} {_y(value, scale)}"
            parts.append(f"M{place}h0" if before is None else f"L{place}")
        before = value
    return "".join(parts)


def _slot(number: int, time: datetime, width: float, series: Sequence[Series], say: Callable[[float], str]) -> Slot:
    said = [
        f"{one.label} {'none' if value is None else say(value)}" for one in series for value in [one.values[number]]
    ]
    return Slot(f"{LEFT + number * width:.1f}", f"{width:.1f}", f"{time:%Y-%m-%d %H:%M} UTC: {', '.join(said)}")


def _columns(times: Sequence[datetime], width: float) -> list[Mark]:
    """Midnights; and where these are few, hours between them; and where they are many, some."""
    midnights = [number for number, time in enumerate(times) if time.hour == 0]
    chosen = midnights[:: math.ceil(len(midnights) / MOST_LABELS) or 1]
    if len(midnights) <= 2:
        chosen = [number for number, time in enumerate(times) if time.hour % 6 == 0]
    places = [(LEFT + number * width, times[number]) for number in chosen]
    return [Mark(f"{at:.1f}", _name(time)) for at, time in places if at + LABEL <= RIGHT]


def _name(time: datetime) -> str:
    return f"{time:%b} {time.day}" if time.hour == 0 else f"{time:%H:%M}"
