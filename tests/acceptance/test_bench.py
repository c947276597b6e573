"""The bench runs and measures something."""

import re
import subprocess
import sys

from mqueue.core.conf import ROOT


def test_a_short_run_prints_every_figure() -> None:
    command = [sys.executable, "-m", "bench", "--seconds", "0.5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    figures = re.findall(r"^  (\S.*?) {2,}([\d,]+)$", done.stdout, re.MULTILINE)
    assert len(figures) == 9
    assert all(int(figure.replace(",", "")) > 0 for _, figure in figures)
