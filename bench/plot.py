"""A curve as a small SVG: logarithmic sizes, messages a second from zero."""

import math
from typing import Any

from bench.rows import LIMIT

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 70, 20, 46, 52
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f")  # colour-blind readers see them
ROW, ABOVE = 18, 2  # of the legend
INK = "#767676"  # readable on white and on black


def svg(curve: dict[str, Any]) -> str:
    """The picture."""
    known = [value for line in curve["lines"].values() for value in line if value is not None]
    top = nice(max(known, default=1))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height(curve)}" fill="{INK}"'
    parts = [f'{head} font-family="sans-serif" font-size="12">', f"<title>{curve['title']}</title>", *grid(curve, top)]
    for number, (label, values) in enumerate(curve["lines"].items()):
        is_limit = label.startswith(LIMIT)
        parts += line(curve["x"], values, top, COLOURS[number % len(COLOURS)], is_limit=is_limit)
        parts += legend(number, label)
    return "\n".join([*parts, "</svg>\n"])


def height(curve: dict[str, Any]) -> int:
    """With the rows of the legend that are below."""
    return HEIGHT + ROW * max(0, math.ceil(len(curve["lines"]) / 2) - ABOVE)


def nice(value: float) -> float:
    """The next round number."""
    power = 10.0 ** math.floor(math.log10(max(value, 1)))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value)


def across(sizes: list[float], x: float) -> float:
    """Where a size stands; zero stands a step before the smallest."""
    logs = [math.log10(max(size, 0.5 * min(filter(None, sizes)))) for size in sizes]
    low, high = min(logs), max(logs)
    share = (math.log10(max(x, 10**low)) - low) / ((high - low) or 1)
    return LEFT + 12 + share * (WIDTH - LEFT - RIGHT - 24)


def down(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)


def grid(curve: dict[str, Any], top: float) -> list[str]:
    """Five lines, the sizes below, what they are."""
    parts = []
    for step in range(6):
        y = down(top * step / 5, top)
        parts.append(f'<path d="M{LEFT} {y:.0f}H{WIDTH - RIGHT}" stroke="{INK}" stroke-opacity=".25"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{top * step / 5:,.0f}</text>')
    for x in curve["x"]:
        at, foot = across(curve["x"], x), HEIGHT - BOTTOM + 18
        parts.append(f'<text x="{at:.0f}" y="{foot}" text-anchor="middle">{short(x)}</text>')
    middle = (LEFT + WIDTH - RIGHT) // 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">{curve["size"]}</text>')
    parts.append(f'<text x="{LEFT - 62}" y="14">{curve["unit"]}</text>')
    return parts


def short(x: float) -> str:
    """10k, 2M."""
    for limit, letter in ((1_000_000, "M"), (1_000, "k")):
        if x >= limit:
            return f"{x / limit:g}{letter}" if x % limit == 0 else f"{x / limit:.0f}{letter}"
    return f"{x:g}"


def line(sizes: list[float], values: list[float | None], top: float, colour: str, *, is_limit: bool) -> list[str]:
    """A line through the points that could be measured; dashed where it is a limit."""
    points = [
        (across(sizes, x), down(value, top)) for x, value in zip(sizes, values, strict=False) if value is not None
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    dashes = ' stroke-dasharray="6 4"' if is_limit else ""
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>', *dots]


def legend(number: int, label: str) -> list[str]:
    """Two a row, two rows above the plot and the others below it."""
    row = number // 2
    x, y = LEFT + 12 + 320 * (number % 2), 14 + ROW * row if row < ABOVE else HEIGHT + ROW * (row - ABOVE) + 6
    colour = COLOURS[number % len(COLOURS)]
    return [f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{colour}"/>', f'<text x="{x + 10}" y="{y}">{label}</text>']
