"""The peers side by side."""

from collections.abc import Iterable, Iterator
from typing import Any

WORKS = ("single", "batch", "consume")
HEADS = ("one by one, 64 callers", "1,000 a call", "dequeue and ack")


def side_by_side(rows: Iterable[dict[str, Any]]) -> list[tuple[str, list[str], dict[str, Any]]]:
    """By queue: its name with its version, its three figures, and what it says of itself."""
    queues: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        if row["group"] == "peers":
            name, _, work = row["name"].removeprefix("peer_").rpartition("_")
            queues.setdefault(name, {})[work] = row
    found = []
    for name, works in queues.items():
        about = works["single"]["ours"]["details"]
        figures = [figure(works[work]) for work in WORKS]
        found.append((" ".join(filter(None, (name, about.get("version")))), figures, about))
    return found


def figure(row: dict[str, Any]) -> str:
    """The median of the rounds, or why there is none."""
    return f"{row['value']['median']:,.0f}" if "value" in row else row["note"]


def text(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """For a terminal."""
    queues = side_by_side(rows)
    if not queues:
        return
    yield f"{'messages a second, median':<26} " + " ".join(f"{head:>23}" for head in HEADS)
    for name, figures, _ in queues:
        yield f"{name:<26} " + " ".join(f"{each[:23]:>23}" for each in figures)
    for name, _, about in queues:
        if about:
            yield f"{name}: {about['settings']}. Less: {about['less']}"
