"""python -m bench: a service of its own in a temporary folder, and what it can do beside what the machine can do."""

import argparse
import datetime
import signal
import sys
from pathlib import Path
from typing import Any

from bench import report
from bench.machine import describe
from bench.peers import table
from bench.rows import Curve, Found, Row
from bench.scenes import SCENES, Scene, all_names
from bench.stage import Stage
from mqueue.core.conf import ROOT

DEFAULT_JSON = ROOT / ".bench" / "report.json"


def main() -> int:
    """Run what was asked for; 0 unless something could not be measured."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the service is stopped and its folder deleted
    options = read_options()
    if options.list:
        return list_scenes()
    stage = Stage(options.seconds, options.rounds, options.scale, options.churn_seconds)
    found = run(stage, choose(options))
    report.write(options.json, found)
    show(found)
    stage.say(f"written to {options.json}")
    return 1 if stage.failures else 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement (default: 3)")
    parser.add_argument("--rounds", type=int, default=3, help="of all measurements in turn (default: 3)")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=all_names(), help="these alone; see --list")
    parser.add_argument("--full", action="store_true", help="what takes long too")
    parser.add_argument("--peers", action="store_true", help="other queues instead; with --full, as well")
    parser.add_argument("--scale", type=float, default=1, help="of the millions of messages; 0.01 to try (default: 1)")
    parser.add_argument("--churn-seconds", type=float, default=300, help="of each churn (default: 300)")
    parser.add_argument(
        "--json", type=Path, default=DEFAULT_JSON, help="where the figures go (default: .bench/report.json)"
    )
    parser.add_argument("--list", action="store_true", help="show every name")
    return parser.parse_args()


def list_scenes() -> int:
    for scene in SCENES:
        print(f"{scene.when:<6} {', '.join(scene.names)}\n       {scene.about}")
    return 0


def choose(options: argparse.Namespace) -> list[tuple[Scene, set[str]]]:
    """The scenes to play, and what is wanted of each."""
    if options.only:
        wanted = [(scene, {name for name in scene.names if name in options.only}) for scene in SCENES]
        return [(scene, names) for scene, names in wanted if names]
    when = {"peers"} if options.peers else {"quick"}
    if options.full:
        when |= {"quick", "full"}
    return [(scene, set(scene.names)) for scene in SCENES if scene.when in when]


def run(stage: Stage, chosen: list[tuple[Scene, set[str]]]) -> dict[str, Any]:
    """Play the scenes; the report."""
    command = " ".join(["python -m bench", *sys.argv[1:]])
    began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    machine = describe()
    stage.say(report.machine_line(machine))
    found: list[Found] = []
    for scene, names in chosen:
        found += scene.play(stage, names)
    settings = {"seconds": stage.seconds, "rounds": stage.rounds, "scale": stage.scale, "shards": 1, "api_workers": 1}
    about = {"command": command, "began": began, "machine": machine, "settings": settings, "promises": report.PROMISES}
    rows = [report.as_json(row) for row in found if isinstance(row, Row)]
    curves = [report.curve_as_json(curve) for curve in found if isinstance(curve, Curve)]
    return about | {"rows": rows, "curves": curves, "failures": stage.failures}


def show(found: dict[str, Any]) -> None:
    """The tables, on the standard output."""
    rows = found["rows"]
    heads = [report.machine_line(found["machine"]), report.settings_line(found["machine"]), report.PROMISES]
    for part in (
        heads,
        report.table(rows),
        table.text(rows),
        report.cost_table(rows),
        report.curve_table(found["curves"]),
    ):
        print("\n".join(["", *part]))
    for failure in found["failures"]:
        print(f"could not be measured: {failure}")


if __name__ == "__main__":
    sys.exit(main())
