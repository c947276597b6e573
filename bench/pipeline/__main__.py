"""python -m bench.pipeline: archive, replay and roll-ups beside plain ways; a table, and JSON for the document."""

import argparse
import datetime
import signal
import sys
from pathlib import Path
from typing import Any

from bench import report
from bench.machine import describe
from bench.pipeline.scene import Scene
from bench.service import Service
from mqueue.core.conf import ROOT

DEFAULT_JSON = ROOT / ".bench" / "pipeline.json"
AGO_DAYS = 3


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the service is stopped and its folder deleted
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline")
    parser.add_argument(
        "--rows", type=int, default=200_000, help="messages of 200 bytes, in two shards (default: 200000)"
    )
    parser.add_argument("--json", type=Path, default=DEFAULT_JSON, help="the figures (default: .bench/pipeline.json)")
    asked = parser.parse_args()
    found = measure(asked.rows, asked.json)
    print("\n".join(["", report.machine_line(found["machine"]), "", *report.table(found["rows"], "pipeline")]))


def measure(count: int, path: Path) -> dict[str, Any]:
    """The report, which is written after each row."""
    now = datetime.datetime.now(datetime.UTC)
    result: dict[str, Any] = {
        "command": f"python -m bench.pipeline --rows {count}", "began": now.isoformat(timespec="seconds"),
        "machine": describe(), "settings": {"rounds": 1, "rows": count}, "rows": [], "curves": [], "failures": [],
    }  # fmt: skip
    with Service(shards=2) as service:
        service.env["LAKE_URL"] = str(service.folder / "lake")
        for row in Scene(service, count, now.date() - datetime.timedelta(days=AGO_DAYS), say).play():
            result["rows"].append(report.as_json(row))
            say("\n".join(list(report.table([report.as_json(row)], "pipeline"))[1:]))
            report.write(path, result)
    say(f"written to {path}")
    return result


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
