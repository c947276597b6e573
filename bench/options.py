"""What may be asked of `python -m bench`."""

import argparse
import sys
from pathlib import Path

from bench.scenes import SCENES, Scene, all_names
from mqueue.core.conf import ROOT

DEFAULT_JSON = ROOT / ".bench" / "report.json"
ABOUT = "A service of its own in a temporary folder, and what it can do beside what the machine can do."
PATHS = ("--json", "--write", "--from")


def read() -> argparse.Namespace:
    """The options of this run."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=ABOUT)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement (default: 3)")
    parser.add_argument("--rounds", type=int, default=3, help="of all measurements in turn (default: 3)")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=all_names(), help="these alone; see --list")
    parser.add_argument("--full", action="store_true", help="what takes long too: every bar and every curve")
    parser.add_argument("--peers", action="store_true", help="other queues; with --full as well, else instead")
    parser.add_argument("--scale", type=float, default=1, help="of the millions of messages; 0.01 to try (default: 1)")
    parser.add_argument("--churn-seconds", type=float, default=300, help="of each churn (default: 300)")
    parser.add_argument("--json", type=Path, default=DEFAULT_JSON, help="the figures (default: .bench/report.json)")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT", help="renew the figures of docs/performance.md")
    parser.add_argument(
        "--from", dest="reports", nargs="+", type=Path, metavar="JSON", help="of earlier runs: no new one"
    )
    parser.add_argument("--list", action="store_true", help="show every name")
    return parser.parse_args()


def choose(options: argparse.Namespace) -> list[tuple[Scene, set[str]]]:
    """The scenes to play, and what is wanted of each."""
    if options.only:
        wanted = [(scene, {name for name in scene.names if name in options.only}) for scene in SCENES]
        return [(scene, names) for scene, names in wanted if names]
    when = {"peers"} if options.peers else {"quick"}
    if options.full:
        when |= {"quick", "full"}
    return [(scene, set(scene.names)) for scene in SCENES if scene.when in when]


def command() -> str:
    """As somebody else would type it: paths are this machine's own affair."""
    kept, skips = ["python -m bench"], False
    for argument in sys.argv[1:]:
        skips = argument in PATHS or (skips and not argument.startswith("--"))
        if not skips:
            kept.append(argument)
    return " ".join(kept)
