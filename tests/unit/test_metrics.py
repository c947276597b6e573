"""How numbers are kept: topics bounded, seats taken over, nothing lost with a process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families as parse

from mqueue.core import metrics, seats
from mqueue.core.conf import ROOT
from mqueue.core.metrics import OTHER, Distribution, Names, TopicCounter

COUNT = """
import sys
from mqueue.core import metrics
for topic in sys.argv[1:]:
    metrics.ENQUEUED.add(1, "n", topic)
metrics.COMMIT_SECONDS.labels(0).observe(0.2)
print("counted", flush=True)
sys.stdin.read()
"""


class Counting:
    """Processes that count in one folder, as the service's do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *topics: str, service: str = "api", **env: str) -> "subprocess.Popen[str]":
        ours = {"PROMETHEUS_MULTIPROC_DIR": str(self.folder), "MQUEUE_SERVICE": service} | env
        process = subprocess.Popen(
            [sys.executable, "-c", COUNT, *topics],
            env=dict(os.environ) | ours,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        assert process.stdout
        assert process.stdout.readline() == "counted\n"
        return process

    def kill(self, process: "subprocess.Popen[str]") -> None:
        process.kill()
        assert process.wait() == -signal.SIGKILL

    def found(self, name: str = "mqueue_enqueue_total") -> dict[str, float]:
        """By topic, of all processes."""
        text = generate_latest(MultiProcessCollector(None, str(self.folder))).decode()  # type: ignore[arg-type]
        samples = [sample for family in parse(text) for sample in family.samples if sample.name == name]
        return {sample.labels.get("topic", ""): sample.value for sample in samples}


@pytest.fixture
def counting(tmp_path: Path) -> "Counting":
    counting = Counting(tmp_path / "seats")
    yield counting  # type: ignore[misc]
    for process in counting.processes:
        process.kill()
        process.communicate()


def test_topics_beyond_the_bound_share_one_label() -> None:
    counter = TopicCounter("test_bound_total", "x", "reason", names=Names(2))
    for topic in ("a", "b", "c", "a", "d"):
        counter.add(2, "n", topic, "r")
    samples = {s.labels["topic"]: s.value for s in counter.metric.collect()[0].samples if s.name.endswith("_total")}
    assert samples == {"a": 4, "b": 2, OTHER: 4}


def test_the_bound_is_one_for_all_counters() -> None:
    names = Names(1)
    first, second = (TopicCounter(f"test_shared_{n}_total", "x", names=names) for n in range(2))
    first.add(1, "n", "a")
    second.add(1, "n", "b")
    assert {s.labels["namespace"] for s in second.metric.collect()[0].samples} == {OTHER}


def test_the_bound_comes_from_the_environment(counting: Counting) -> None:
    counting.start("a", "b", "c", METRICS_TOPICS="2")
    assert counting.found() == {"a": 1, "b": 1, OTHER: 1}


def test_the_bound_holds_for_all_who_follow_each_other(counting: Counting) -> None:
    """Or each worker that is renewed would bring as many labels as it may have."""
    counting.kill(counting.start("a", "b", METRICS_TOPICS="2"))
    beside = counting.start("b", "c", METRICS_TOPICS="2")
    counting.kill(counting.start("c", "d", "a", METRICS_TOPICS="2"))
    counting.kill(beside)
    assert counting.found() == {"a": 2, "b": 2, OTHER: 3}


def test_counters_can_be_turned_off(counting: Counting) -> None:
    counting.start("a", "b", METRICS_COUNTERS="false")
    assert counting.found() == {}
    assert counting.found("mqueue_commit_seconds_count") == {"": 0}
    assert seats.sitting(counting.folder) == {"api": 1}
    counting.start("c", METRICS_COUNTERS="true")
    assert counting.found() == {"c": 1}


def test_many_observations_are_as_many_single_ones() -> None:
    amounts = [0.0, 0.5, 1, 1.5, 7, 100]
    one, many = (Distribution(f"test_{name}_seconds", "x", buckets=(0.5, 1, 5)) for name in ("one", "many"))
    for amount in amounts:
        one.observe(amount)
    many.observe_each(amounts)
    found = [[(s.labels, s.value) for s in h.collect()[0].samples if "created" not in s.name] for h in (one, many)]
    assert found[0] == found[1]


def test_what_a_killed_process_counted_stays_and_the_next_one_goes_on(counting: Counting) -> None:
    counting.kill(counting.start("a", "a"))
    assert counting.found() == {"a": 2}
    counting.start("a", "b")
    assert counting.found() == {"a": 3, "b": 1}
    assert counting.found("mqueue_commit_seconds_count") == {"": 2}
    assert len(list(counting.folder.glob("*.seat"))) == 1


def test_live_processes_have_seats_of_their_own_and_are_counted(counting: Counting) -> None:
    first, _, _ = counting.start("a"), counting.start("a"), counting.start("a", service="daemons")
    assert counting.found() == {"a": 3}
    assert seats.sitting(counting.folder) == {"api": 2, "daemons": 1}
    counting.kill(first)
    assert seats.sitting(counting.folder) == {"api": 1, "daemons": 1}
    assert counting.found() == {"a": 3}


def test_only_the_numbers_of_the_dead_are_cleared(counting: Counting) -> None:
    dead, _ = counting.start("a"), counting.start("b")
    counting.kill(dead)
    seats.clear(counting.folder)
    assert counting.found() == {"b": 1}


@pytest.mark.parametrize("damage", [b"\xff" * 400, b""])
def test_a_damaged_file_is_made_anew(counting: Counting, damage: bytes) -> None:
    counting.kill(counting.start("a"))
    (path,) = counting.folder.glob("counter_*.db")
    path.write_bytes(damage)
    counting.start("b")
    assert counting.found() == {"b": 1}


def test_a_damaged_file_that_nobody_takes_over_is_forgotten(counting: Counting) -> None:
    dead, _ = counting.start("a"), counting.start("b")
    counting.kill(dead)
    (counting.folder / "counter_0.db").write_bytes(b"\xff" * 400)
    seats.mend(counting.folder)
    assert counting.found() == {"b": 1}


def test_a_fork_takes_a_seat_of_its_own(tmp_path: Path) -> None:
    seat = seats.Seat(tmp_path, "api")
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, str(seat.number).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert (seat.number, os.read(read, 10)) == (0, b"1")


def test_no_process_keeps_a_gauge() -> None:
    assert {metric.describe()[0].type for metric in metrics.every()} == {"counter", "histogram"}
