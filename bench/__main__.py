"""python -m bench: measure, show a table, and keep the figures as JSON."""

import argparse
import datetime
import json
import signal
import sys
from functools import partial
from typing import Any

from bench import options, report
from bench.machine import describe
from bench.peers import table
from bench.publish import publish
from bench.rows import Curve, Found, Row
from bench.scenes import SCENES
from bench.stage import Stage


def main() -> int:
    """Do what was asked for; 0 unless something could not be measured."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the service is stopped and its folder deleted
    asked = options.read()
    if asked.list:
        return list_scenes()
    reports = [json.loads(path.read_text()) for path in asked.reports or ()] or [measure(asked)]
    for each in reports:
        show(each)
    if asked.write:
        publish(asked.write, reports)
    return 1 if any(each["failures"] for each in reports) else 0


def list_scenes() -> int:
    for scene in SCENES:
        print(f"{scene.when:<6} {', '.join(scene.names)}\n       {scene.about}")
    return 0


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Play the scenes; the report, which is written after each: what a long run has found is not lost with its end."""
    stage = Stage(asked.seconds, asked.rounds, asked.scale, asked.churn_seconds)
    result = heading(asked) | {"failures": stage.failures}
    stage.say(report.machine_line(result["machine"]))
    found: list[Found] = []
    for scene, names in options.choose(asked):
        found += stage.attempt(scene.about, partial(scene.play, stage, names)) or []
        result["rows"] = [report.as_json(row) for row in found if isinstance(row, Row)]
        result["curves"] = [report.curve_as_json(curve) for curve in found if isinstance(curve, Curve)]
        report.write(asked.json, result)
    stage.say(f"written to {asked.json}")
    return result


def heading(asked: argparse.Namespace) -> dict[str, Any]:
    """What was run, when and where, and with what."""
    began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    settings = {name: getattr(asked, name) for name in ("seconds", "rounds", "scale", "churn_seconds")}
    settings |= {"shards": 1, "api_workers": 1}
    about = {"command": options.command(), "began": began, "machine": describe(), "settings": settings}
    return about | {"promises": report.PROMISES}


def show(found: dict[str, Any]) -> None:
    """The tables, on the standard output."""
    rows, machine = found["rows"], found["machine"]
    heads = [report.machine_line(machine), report.settings_line(machine), report.PROMISES]
    parts = (report.table(rows), table.text(rows), report.cost_table(rows), report.curve_table(found["curves"]))
    for part in (heads, *map(list, parts)):
        if part:
            print("\n".join(["", *part]))
    for failure in found["failures"]:
        print(f"could not be measured: {failure}")


if __name__ == "__main__":
    sys.exit(main())
