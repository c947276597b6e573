"""The bench runs and measures something."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.scenes import SCENES
from mqueue.core.conf import ROOT


@pytest.mark.timeout(400)
def test_a_short_run_prints_every_figure(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    command = [sys.executable, "-m", "bench", "--seconds", "0.3", "--rounds", "1", "--json", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=360)
    assert done.returncode == 0, done.stderr
    report = json.loads(path.read_text())
    quick = {name for scene in SCENES if scene.when == "quick" for name in scene.names}
    found = [row["name"] for row in report["rows"]]
    assert [name for name in quick if not any(row.startswith(name) for row in found)] == []
    for row in report["rows"]:
        assert row["value"]["median"] > 0, row
        assert row["name"] in done.stdout
        assert row["ours"]["costs"][0]["cpu_us"]["client"] >= 0
    assert report["machine"]["settings"]["fsync"] == "on"
