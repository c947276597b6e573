"""A process with all its descendants: what they spend and hold, sampled while they live."""

import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import psutil

from bench.cpu import of_tree

EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Spent:
    wall_s: float
    own_s: float  # CPU of the process and its descendants
    postgres_s: float
    peak_bytes: int
    output: str

    @property
    def cpu_s(self) -> float:
        return self.own_s + self.postgres_s


def run(command: list[str], env: dict[str, str], folder: str, postgres: int) -> Spent:
    """Run it to its end. A JVM's children are nobody's when it ends, so each process is looked at while it lives."""
    before, began = of_tree(postgres), time.monotonic()
    with subprocess.Popen(
        command, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        watch = Watch(child.pid)
        output = child.stdout.read() if child.stdout else ""
    wall = time.monotonic() - began
    watch.end()
    if child.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}:\n{output[-2000:]}")
    return Spent(wall, sum(watch.cpu.values()), of_tree(postgres) - before, watch.peak, output)


class Watch:
    def __init__(self, pid: int) -> None:
        self.cpu: dict[tuple[int, float], float] = {}
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, args=(pid,), daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self, pid: int) -> None:
        while not self._stop.wait(EVERY_S):
            held = 0
            with suppress(psutil.Error):
                leader = psutil.Process(pid)
                for process in [leader, *leader.children(recursive=True)]:
                    with suppress(psutil.Error):
                        times = process.cpu_times()
                        self.cpu[process.pid, process.create_time()] = times.user + times.system
                        held += process.memory_full_info().pss
            self.peak = max(self.peak, held)
