"""What gives way to live traffic gives way on the kernel's terms, and never where somebody sits at a terminal."""

import ctypes
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from mqueue.core.conf import ROOT
from mqueue.core.linux import ATTR, GENTLY, LEAST_WEIGHT, LONGEST_SLICE_NS, SCHED_SETATTR, give_way

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
AUTOGROUP = Path("/proc/self/autogroup")
LOOK = """
import os
from pathlib import Path
from mqueue.core.linux import step_apart
step_apart()
group = Path("/proc/self/autogroup")
print(os.getsid(0) == os.getpid(), group.read_text().split()[-1] if group.exists() else "none")
"""
PARENT = """
import subprocess, sys
from mqueue.core.linux import leash
child = subprocess.Popen([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"],
                         preexec_fn=leash, start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


def slice_of(pid: int) -> int:
    """In nanoseconds, as the kernel has it."""
    attr = ctypes.create_string_buffer(ATTR.size)
    call = SCHED_SETATTR[platform.machine()] + 1
    assert ctypes.CDLL(None, use_errno=True).syscall(call, pid, attr, ATTR.size, 0) == 0
    return int(ATTR.unpack(attr.raw)[5])


def test_who_gives_way_gets_less_and_keeps_nobody_waiting() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            give_way(child.pid)
            assert os.getpriority(os.PRIO_PROCESS, child.pid) == max(GENTLY, os.getpriority(os.PRIO_PROCESS, 0))
            release = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
            if release >= (6, 12) and platform.machine() in SCHED_SETATTR:
                assert slice_of(child.pid) == LONGEST_SLICE_NS
                assert slice_of(0) < LONGEST_SLICE_NS
        finally:
            child.kill()


def test_who_is_gone_or_a_strangers_is_left_alone() -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    give_way(child.pid)


def test_who_gives_way_more_already_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            os.sched_setscheduler(child.pid, os.SCHED_IDLE, os.sched_param(0))
            give_way(child.pid)
            assert os.sched_getscheduler(child.pid) == os.SCHED_IDLE
        finally:
            child.kill()


def test_a_session_of_its_own_gets_the_least_weight() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], cwd=ROOT, capture_output=True, text=True, check=True,
                          start_new_session=True)  # fmt: skip
    assert done.stdout.split() == ["True", str(LEAST_WEIGHT) if AUTOGROUP.exists() else "none"]


def test_in_the_session_of_another_it_stays_where_that_may_end_it() -> None:
    looking = ["sh", "-c", f"{shlex.join([sys.executable, '-c', LOOK])}; true"]
    done = subprocess.run(looking, cwd=ROOT, capture_output=True, text=True, check=True, start_new_session=True)
    assert done.stdout.split() == ["False", "0" if AUTOGROUP.exists() else "none"]


@pytest.mark.skipif(not shutil.which("script"), reason="needs script, of util-linux")
def test_at_a_terminal_it_stays_where_a_ctrl_c_reaches_it() -> None:
    looking = f"sh -c {shlex.quote(shlex.join([sys.executable, '-c', LOOK]) + '; true')}"
    done = subprocess.run(["script", "-qec", looking, "/dev/null"], cwd=ROOT, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, check=True)  # fmt: skip
    assert done.stdout.split() == ["False", "0" if AUTOGROUP.exists() else "none"]


def test_a_child_on_a_leash_ends_with_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.02)
