"""One run: start everything, let the load and the faults go, drain, write down how it ended, and judge."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.faults.checker import ending
from tests.faults.checker.disks import Disk
from tests.faults.checker.faults import FAULTS
from tests.faults.checker.messages import NAMESPACE
from tests.faults.checker.schedule import Schedule
from tests.faults.checker.stage import Stage
from tests.faults.checker.times import offset
from tests.faults.checker.verdict import Verdict
from tests.faults.checker.watch import Watch

PROCESSES = 3
BUFFERED = 2  # topics, one on each shard, of durability buffered
DRAIN_S, STOP_S = 90.0, 60.0


@dataclass(frozen=True)
class Options:
    seconds: float
    seed: str
    faults: list[str]
    pace: float
    rate: float
    once: bool
    keep: bool


class Load:
    """A process of it."""

    def __init__(self, stage: Stage, folder: Path, number: int, options: Options, run_offset: int) -> None:
        spec = {
            "port": stage.service.port,
            "token": stage.token,
            "process": number,
            "seed": options.seed,
            "topics": stage.topics,
            "deep": stage.deep,
            "rate": options.rate / PROCESSES,
            "offset": run_offset,
            "folder": str(folder),
        }
        command = [sys.executable, "-m", "tests.faults.checker.load"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.tell(json.dumps(spec))
        assert self._process.stdout
        assert self._process.stdout.readline() == "ready\n"

    def tell(self, order: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()

    def wait(self) -> None:
        code = self._process.wait(STOP_S)
        assert code == 0, f"a process of the load ended with {code}"

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def run(options: Options) -> bool:
    folder = Path(tempfile.mkdtemp(prefix="mqueue-chaos-"))
    folder.chmod(0o755)
    records = folder / "records"
    records.mkdir()
    is_good = False
    try:
        _drive(options, folder, records)
        print("judging", flush=True)
        verdict = Verdict(records)
        print("\n".join(verdict.lines()), flush=True)
        is_good = verdict.is_good
    finally:
        if is_good and not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"kept: {folder} (judge it again: python -m tests.faults.checker --judge {records})", flush=True)
    return is_good


def possible(names: list[str]) -> tuple[list[str], bool]:
    """Those that can be injected here, and whether disks can be filled."""
    if not any(FAULTS[name].needs_disk for name in names):
        return names, False
    with tempfile.TemporaryDirectory() as folder:
        why_not = Disk.why_not(Path(folder))
    if why_not:
        print(f"left out: {', '.join(name for name in names if FAULTS[name].needs_disk)}: {why_not}", flush=True)
    return [name for name in names if not (why_not and FAULTS[name].needs_disk)], not why_not


def _drive(options: Options, folder: Path, records: Path) -> None:
    names, disks = possible(options.faults)
    began = time.monotonic()
    with Stage(folder, disks=disks) as stage:
        print(f"everything is up after {time.monotonic() - began:.1f} s; {folder}", flush=True)
        buffered = stage.topics[-BUFFERED:]
        for topic in buffered:
            _make_buffered(stage, topic)
        meta = {"topics": stage.topics, "buffered": buffered, "each": names if options.once else []}
        (records / "meta.json").write_text(json.dumps(meta))
        watch = Watch(stage.service.port, records)
        run_offset = offset()
        loads = [Load(stage, records, number, options, run_offset) for number in range(PROCESSES)]
        try:
            Schedule(stage, names, options.seed, records, options.pace).run(options.seconds, once=options.once)
            stage.mover.finish()
            _drain(stage, loads)
        finally:
            for load in loads:
                load.end()
            watch.close()
        ending.write_down(stage, records, abs(offset() - run_offset))


def _make_buffered(stage: Stage, topic: str) -> None:
    with stage.service.client() as http:
        http.put(f"/api/v1/namespaces/{NAMESPACE}/", json={})
        answer = http.put(f"/api/v1/namespaces/{NAMESPACE}/topics/{topic}/", json={"durability": "buffered"})
        assert answer.is_success, answer.text


def _drain(stage: Stage, loads: list[Load]) -> None:
    print("draining", flush=True)
    for load in loads:
        load.tell("drain")
    deadline, empty = time.monotonic() + DRAIN_S, 0
    while empty < 3 and time.monotonic() < deadline:
        empty = empty + 1 if ending.waiting(stage) == 0 else 0
        time.sleep(0.3)
    for load in loads:
        load.tell("stop")
    for load in loads:
        load.wait()
