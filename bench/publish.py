"""Figures into a document, between its markers `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`, and its pictures."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench import plot, report
from bench.peers.table import HEADS, side_by_side

FIGURES = "figures"
Report = dict[str, Any]


def publish(document: Path, reports: list[Report]) -> None:
    """Renew what the reports have figures for; of two for one row the later counts. The rest stays as it is."""
    text = document.read_text()
    for name, lines in sections(reports).items():
        text = put(text, name, "\n".join(lines))
    document.write_text(text)
    folder = document.parent / FIGURES
    folder.mkdir(exist_ok=True)
    for curve in merged(reports, "curves").values():
        (folder / f"{curve['name']}.svg").write_text(plot.svg(curve))


def put(text: str, name: str, content: str) -> str:
    """The text with other content between the markers; without such markers, the text."""
    opening, closing = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    before, _, rest = text.partition(opening)
    _, closed, after = rest.partition(closing)
    return f"{before}{opening}\n\n{content}\n\n{closing}{after}" if closed else text


def sections(reports: list[Report]) -> dict[str, list[str]]:
    """By marker; those without figures are left out."""
    rows = merged(reports, "rows").values()
    bars = [row for row in rows if row["group"] == "bars"]
    peers = [row for row in rows if row["group"] == "peers"]
    found = {name: list(curve_section(curve)) for name, curve in merged(reports, "curves").items()}
    if pipeline := [row for row in rows if row["group"] == "pipeline"]:
        found["pipeline"] = [*bar_section(pipeline), *origins(reports, pipeline)]
    if bars:
        found |= {"bars": [*bar_section(bars), *origins(reports, bars)], "costs": list(cost_section(rows))}
    if peers:
        found |= {"peers": [*peer_section(peers), *origins(reports, peers)]}
    return found


def merged(reports: list[Report], kind: str) -> dict[str, dict[str, Any]]:
    """By name; a curve without a point is none."""
    return {row["name"]: row for each in reports for row in each.get(kind, []) if row.get("x") != []}


def origins(reports: list[Report], rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Which command printed them, when, and where."""
    names = {row["name"] for row in rows}
    for each in reports:
        if names & {row["name"] for row in each["rows"]}:
            machine = report.machine_line(each["machine"])
            rounds = each["settings"]["rounds"]
            times = f"{rounds} rounds" if rounds > 1 else "once"
            settings = report.settings_line(each["machine"])
            yield f"\n`{each['command']}`, {each['began'][:10]}, {times}. {machine}; {settings}."


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table; the first column is text, the others are figures."""
    columns = list(head)
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join(['---', *['---:'] * (len(columns) - 1)])}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def bar_section(bars: list[dict[str, Any]]) -> Iterator[str]:
    """Every bar: the figure, and what it was computed from."""
    yield from markdown(("row", "median", "best", "at least / at most", "computed from medians"), map(bar_line, bars))


def bar_line(row: dict[str, Any]) -> list[str]:
    if "value" not in row:
        return [f"`{row['name']}`", "not measured", "", report.bar(row), row["note"]]
    median, best = (report.shape(row, row["value"][how]) for how in ("median", "best"))
    mark = "" if row["holds"] is not False else " (missed)"
    return [f"`{row['name']}`", median + mark, best, report.bar(row), report.origin(row)]


def cost_section(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """What a message costs."""
    head = (
        "a message of",
        "WAL bytes",
        "transactions",
        *(f"{part}, us" for part in report.PARTS),
        "waits",
        "dead rows",
    )
    lines = []
    for title, cost in report.costs(rows).items():
        cpu = [f"{cost['cpu_us'][part]:,.1f}" for part in report.PARTS]
        rest = [report.waits(cost), report.dead_rows(cost)]
        lines.append([title, f"{cost['wal_bytes']:,.0f}", f"{cost['transactions']:.3f}", *cpu, *rest])
    yield from markdown(head, lines)


def peer_section(peers: list[dict[str, Any]]) -> Iterator[str]:
    """The peers side by side, then how each was used and where it promises less."""
    queues = side_by_side(peers)
    yield from markdown(("messages a second", *HEADS), ([name, *figures] for name, figures, _ in queues))
    yield ""
    for name, _, about in queues:
        if about:
            yield f"- **{name}**: {about['settings']}. It promises less: {about['less']}."


def curve_section(curve: dict[str, Any]) -> Iterator[str]:
    """The picture, and its points."""
    yield f"![{curve['title']}]({FIGURES}/{curve['name']}.svg)\n"
    points = ([label, *("" if y is None else f"{y:,.0f}" for y in values)] for label, values in curve["lines"].items())
    yield from markdown((f"{curve['unit']} by {curve['size']}", *(f"{x:,.0f}" for x in curve["x"])), points)
