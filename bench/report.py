"""The end of a run: a table for people and JSON for programs."""

import dataclasses
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench.rows import SMALL, Curve, Row

PARTS = ("api", "postgres", "valkey", "daemons", "celery", "metrics", "client")
PROMISES = "fsync on, HTTP, tokens, events and metrics on, 200-byte payloads, clients on the same cores"


def as_json(row: Row) -> dict[str, Any]:
    """Everything that is known of a row."""
    found = dataclasses.asdict(row) | {"holds": row.holds}
    if row.is_measured:
        found["value"] = {how: row.value(how) for how in ("best", "median")}
    return found


def curve_table(curves: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The points of each curve."""
    for curve in curves:
        yield f"{curve['title']}: {curve['unit']} by {curve['size']}"
        width = max(map(len, curve["lines"]), default=0)
        yield f"  {'':<{width}} " + " ".join(f"{x:>10,.0f}" for x in curve["x"])
        for label, values in curve["lines"].items():
            yield f"  {label:<{width}} " + " ".join(
                f"{'-' if value is None else f'{value:,.0f}':>10}" for value in values
            )


def curve_as_json(curve: Curve) -> dict[str, Any]:
    """With what each point cost."""
    return dataclasses.asdict(curve)


def write(path: Path, report: dict[str, Any]) -> None:
    """Beside the table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")


def machine_line(machine: dict[str, Any]) -> str:
    """Where it ran."""
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['kernel']}, "
        f"Python {machine['python']}, PostgreSQL {machine['postgresql']}, Valkey {machine['valkey']}, "
        f"fdatasync of a page {machine['fdatasync_us']} us, load before {machine['load_before']:.1f}"
    )


def settings_line(machine: dict[str, Any]) -> str:
    """With what."""
    return ", ".join(f"{name}={value}" for name, value in machine["settings"].items())


def table(rows: Iterable[dict[str, Any]], group: str = "bars") -> Iterator[str]:
    """One line a row: the value, the bar, and what the value was computed from."""
    bars = [row for row in rows if row["group"] == group]
    if bars:
        yield f"{'':<20} {'best':>10} {'median':>10}  {'bar':<10} {'':<5}"
    for row in bars:
        if "value" not in row:
            yield f"{row['name']:<20} {'not measured':>21}  {bar(row):<10} {'':<5} {row['note']}"
            continue
        best, median = (shape(row, row["value"][how]) for how in ("best", "median"))
        yield f"{row['name']:<20} {best:>10} {median:>10}  {bar(row):<10} {verdict(row):<5} {origin(row)}"


def bar(row: dict[str, Any]) -> str:
    """What the row has to keep."""
    if row["at_least"] is not None:
        return f">= {row['at_least']:g}" + (f", goal {row['goal']:g}" if row["goal"] else "")
    return f"<= {row['at_most']:g}" if row["at_most"] is not None else ""


def verdict(row: dict[str, Any]) -> str:
    """By the median."""
    return {True: "holds", False: "FAILS", None: ""}[row["holds"]]


def shape(row: dict[str, Any], value: float) -> str:
    """A ratio has two decimals, a small figure one, a large one none."""
    return f"{value:.2f}" if row["against"] else figure(value, row["unit"])


def figure(value: float, unit: str) -> str:
    return f"{value:.1f} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


def origin(row: dict[str, Any]) -> str:
    """What was measured, and what it was divided by, in the median of the rounds."""
    ours, against = row["ours"], row["against"]
    if not against:
        return str(ours["title"])
    unit = f" {row['unit']}" if row["unit"] in SMALL else ""
    return " / ".join(f"{median(each['values']):,.0f}{unit} {each['title']}" for each in (ours, against))


def cost_table(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """What a message cost, in the last round of each series."""
    if not costs(rows):
        return
    head = " ".join(f"{name:>8}" for name in ("WAL B", "txns", *PARTS))
    yield f"{'a message costs (CPU in us)':<46} {head}  cores of others; sessions by what they wait for; dead rows left"
    for title, cost in costs(rows).items():
        figures = [f"{cost['wal_bytes']:,.0f}", f"{cost['transactions']:.3f}"]
        figures += [f"{cost['cpu_us'][part]:,.1f}" for part in PARTS]
        yield (
            f"{title[:46]:<46} {' '.join(f'{each:>8}' for each in figures)}  {cost['cores_of_others']}; "
            f"{waits(cost)}; {dead_rows(cost)}"
        )


def waits(cost: dict[str, Any]) -> str:
    """Sessions of the server, by what most of them waited for."""
    return ", ".join(f"{name} {count}" for name, count in list(cost["waits"].items())[:3])


def dead_rows(cost: dict[str, Any]) -> str:
    """In the tables that had most when it was over."""
    return ", ".join(f"{name} {count:,}" for name, count in list(cost["dead_rows"].items())[:2])


def costs(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By the title of the series, each measurement once; where messages come as fast as they can. A service that is
    mostly idle, or works for others at the same time, spends most of its time on something else."""
    found: dict[str, dict[str, Any]] = {}
    as_fast = [row for row in rows if row["unit"].endswith("/s")]
    for series in (row[side] for row in as_fast for side in ("ours", "against")):
        if series and series["costs"] and series["costs"][-1] not in found.values():
            found.setdefault(series["title"], series["costs"][-1])
    return found
