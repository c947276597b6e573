"""What is asked of Linux about processes. Elsewhere, and where it is refused, nothing happens."""

import contextlib
import ctypes
import os
import platform
import signal
import struct
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}  # calls that Python does not know
ATTR = struct.Struct("=IIQiIQQQ")  # struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period
LONGEST_SLICE_NS = 100_000_000
GENTLY, LEAST_WEIGHT = 5, 19  # as `nice` counts
_C = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_PRCTL = _C and _C.prctl  # found here: between a fork and an exec nothing may be loaded


def leash(stop_signal: int = signal.SIGTERM) -> None:
    """Have the kernel send us `stop_signal` when our parent dies."""
    if _PRCTL:
        _PRCTL(PR_SET_PDEATHSIG, int(stop_signal), 0, 0, 0)


def give_way(pid: int = 0) -> None:
    """That process, or we, with all that it starts from now on. `nice` says who gets how much, and not who waits: who
    runs keeps its turn against a newcomer, for milliseconds, unless he asked for shorter turns. So this one asks for
    the longest (Linux 6.12 and later)."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, max(GENTLY, os.getpriority(os.PRIO_PROCESS, pid)))
        _set_slice(pid)


def step_apart(pid: int = 0) -> None:
    """Where that process, or we, lead a session, it gets the least weight: with autogroups, the kernel's way on most
    machines, `nice` counts within a session alone. Whether we have one is his choice who begins us: it is by his that
    he may end us. Each of PostgreSQL's processes has one."""
    pid = pid or os.getpid()
    with contextlib.suppress(OSError):
        if sys.platform == "linux" and os.getsid(pid) == pid:
            Path(f"/proc/{pid}/autogroup").write_text(str(LEAST_WEIGHT))


def _set_slice(pid: int) -> None:
    call = SCHED_SETATTR.get(platform.machine())
    if _C and call is not None and os.sched_getscheduler(pid) == os.SCHED_OTHER:  # or it gives way still more
        nice = os.getpriority(os.PRIO_PROCESS, pid)
        attr = ATTR.pack(ATTR.size, os.SCHED_OTHER, 0, nice, 0, LONGEST_SLICE_NS, 0, 0)
        _C.syscall(call, pid, attr, 0)
