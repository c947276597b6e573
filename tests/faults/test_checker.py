"""A short round of the checker with every fault; `make chaos` runs a long one."""

import subprocess
import sys

import pytest

from mqueue.core.conf import ROOT

pytestmark = [pytest.mark.fault, pytest.mark.timeout(400)]


def test_every_fault_once_and_nothing_is_broken() -> None:
    command = [sys.executable, "-m", "tests.faults.checker", "--once", "--minutes=10", "--pace=0.2", "--seed=1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[done.stdout.find("counts:") :] + done.stderr
