"""Degrade and heal, one fault after the other: what clients see while it lasts, and how soon all is well again.

The bounds are those of docs/reliability.md, measured from outside."""

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from tests.faults.checker.disks import Disk
from tests.faults.checker.messages import NAMESPACE
from tests.faults.checker.stage import Stage

pytestmark = [pytest.mark.fault, pytest.mark.timeout(180)]
AT_ONCE_S = 1.0
HANG_UP_S = 5.5 + 1.0  # the statement timeout, half a second of grace, and a busy machine


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    folder = Path(tempfile.mkdtemp(prefix="mqueue-heal-"))
    folder.chmod(0o755)
    try:
        with Stage(folder, disks=not Disk.why_not(folder)) as stage:
            yield stage
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def all_is_well(stage: Stage) -> None:
    assert stage.until_well(30)
    for shard in (0, 1):  # the topics are known, and so are the ids
        with Probe(stage, shard) as probe:
            probe.until(200, 5)


@pytest.fixture
def probes(stage: Stage) -> "Iterator[list[Probe]]":
    """One for each shard."""
    with Probe(stage, 0) as first, Probe(stage, 1) as second:
        yield [first, second]


@dataclass
class Turn:
    """A message sent, taken and acked; or the first of these that failed."""

    status: int
    code: str
    seconds: float  # of the longest call


class Probe:
    """A client of one shard's topic."""

    def __init__(self, stage: Stage, shard: int) -> None:
        self._stage, self.topic = stage, stage.topics[shard]
        self._http = stage.service.client()
        self.promised: set[int] = set()
        self.acked: set[int] = set()
        self.slowest_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def turn(self) -> Turn:
        longest = 0.0
        answer = None
        for call in (self._send, self._take_and_ack):
            began = time.monotonic()
            answer = call()
            longest = max(longest, time.monotonic() - began)
            if answer.status_code != 200:
                break
        self.slowest_s = max(self.slowest_s, longest)
        assert answer is not None
        assert answer.status_code in (200, 503), answer.text
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) >= 1
        return Turn(answer.status_code, answer.json()["code"] if answer.status_code != 200 else "", longest)

    def until(self, status: int, patience_s: float) -> float:
        """The seconds until a whole turn ends so."""
        began = time.monotonic()
        while self.turn().status != status:
            assert time.monotonic() - began < patience_s, f"no {status} in {patience_s} s"
            time.sleep(0.02)
        return time.monotonic() - began

    def all_for(self, seconds: float) -> list[Turn]:
        turns, deadline = [], time.monotonic() + seconds
        while time.monotonic() < deadline:
            turns.append(self.turn())
            time.sleep(0.02)
        return turns

    def nothing_is_lost(self) -> None:
        deadline = time.monotonic() + 15
        while self.promised - self.acked and time.monotonic() < deadline:
            self._take_and_ack(wait_ms=500)
        assert self.promised <= self.acked

    def _send(self) -> httpx.Response:
        answer = self._http.post("/enqueue", json={"namespace": NAMESPACE, "topic": self.topic, "body": 1})
        if answer.status_code == 200:
            self.promised.update(answer.json())
        return answer

    def _take_and_ack(self, wait_ms: int = 0) -> httpx.Response:
        wanted = {"namespace": NAMESPACE, "topic": self.topic, "limit": 100, "visibility_ms": 1_500, "wait_ms": wait_ms}
        answer = self._http.post("/dequeue", json=wanted)
        if answer.status_code == 200 and answer.json():
            answer = self._http.post("/ack", json=answer.json())
            if answer.status_code == 200:
                self.acked |= {one["id"] for one in answer.json() if one.get("state") == "acked"}
        return answer


def health(stage: Stage) -> Any:
    return httpx.get(f"{stage.service.url}/health", timeout=10).json()


def is_shown(stage: Stage, name: str) -> float:
    found = re.search(
        rf'^mqueue_shard_health{{shard="{name}"}} (\S+)', httpx.get(stage.service.metrics_url).text, re.MULTILINE
    )
    assert found
    return float(found[1])


def until(condition: Callable[[], object], patience_s: float) -> float:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < patience_s
        time.sleep(0.02)
    return time.monotonic() - began


def test_a_shard_that_is_down_is_refused_at_once_hurts_no_other_and_is_back_soon(
    stage: Stage, probes: list[Probe]
) -> None:
    broken, other = probes
    broken.turn()
    stage.shards[0].kill(stays_down=True)
    try:
        took = broken.until(503, AT_ONCE_S)
        refused = broken.all_for(2)
        assert {turn.code for turn in refused} == {"shard_unavailable"}
        assert max(turn.seconds for turn in refused) < AT_ONCE_S
        assert {turn.status for turn in other.all_for(2)} == {200}
        assert other.slowest_s < AT_ONCE_S
        assert health(stage)["status"] == "degraded"
        assert [shard["status"] for shard in health(stage)["shards"]] == ["down", "OK"]
        until(lambda: (is_shown(stage, "0"), is_shown(stage, "1")) == (0.0, 1.0), 5)
    finally:
        stage.shards[0].start()
    healing = broken.until(200, 3)
    print(f"503 after {took:.2f} s; back {healing:.2f} s after the server; others: {other.slowest_s:.2f} s")
    until(lambda: is_shown(stage, "0") == 1.0 and health(stage)["status"] == "OK", 5)
    broken.nothing_is_lost()


def test_without_any_shard_it_says_that_it_can_serve_nothing(stage: Stage, probes: list[Probe]) -> None:
    """So that whoever spreads requests over several services asks another."""

    def answers() -> list[int]:
        return [
            httpx.get(f"{stage.service.url}/{path}", timeout=10).status_code for path in ("health", "ready", "live")
        ]

    def down() -> list[str]:
        """Another process of the API than before may say this."""
        return [shard["status"] for shard in health(stage)["shards"]]

    assert answers() == [200, 200, 200]
    for shard in stage.shards:
        shard.kill(stays_down=True)
    try:
        for probe in probes:
            probe.until(503, AT_ONCE_S)
        until(lambda: answers() == [503, 503, 200] and down() == ["down", "down"], 3 * HANG_UP_S)
    finally:
        for shard in stage.shards:
            shard.start()
    until(lambda: answers() == [200, 200, 200], 5)
    for probe in probes:
        probe.until(200, 5)
        probe.nothing_is_lost()


def test_a_server_that_is_restarted_is_back_soon(stage: Stage, probes: list[Probe]) -> None:
    probe = probes[0]
    probe.turn()
    stage.shards[0].kill(3, stays_down=True)  # SIGQUIT: pg_ctl stop -m immediate
    stage.shards[0].start()
    print(f"back {probe.until(200, 3):.2f} s after the server")
    probe.nothing_is_lost()


def test_sessions_that_are_ended_cost_next_to_nothing(stage: Stage, probes: list[Probe]) -> None:
    probe = probes[0]
    for _ in range(3):
        probe.turn()
        stage.shards[0].end_sessions()
        assert probe.until(200, AT_ONCE_S) < AT_ONCE_S
    probe.nothing_is_lost()


@pytest.mark.parametrize("shard", [0, 1])
def test_a_network_that_swallows_everything_ends_in_503_and_hurts_no_other(
    stage: Stage, probes: list[Probe], shard: int
) -> None:
    broken, other = probes[shard], probes[1 - shard]
    stage.lines.obey(f"shard {shard}", "freeze")
    try:
        took = broken.until(503, 15)
        assert broken.slowest_s < HANG_UP_S, took
        assert {turn.status for turn in other.all_for(1)} == {200}
        until(lambda: health(stage)["shards"][shard]["status"] == "down", 3 * HANG_UP_S)
        time.sleep(1)  # both processes of the API have found out, or will with their first call
        broken.until(503, 2 * HANG_UP_S)
        refused = broken.all_for(2)
        assert {turn.status for turn in refused} == {503}
        assert other.slowest_s < AT_ONCE_S
    finally:
        stage.lines.obey(f"shard {shard}", "thaw")
    print(f"503 after {took:.2f} s; back {broken.until(200, 4):.2f} s after the network")
    broken.nothing_is_lost()


def test_known_topics_go_on_without_the_control_database(stage: Stage, probes: list[Probe]) -> None:
    stage.control.kill(stays_down=True)
    try:
        for probe in probes:
            assert {(turn.status, turn.code) for turn in probe.all_for(2)} == {(200, "")}
            assert probe.slowest_s < AT_ONCE_S
        until(lambda: health(stage)["control"]["status"] == "down", 5)
        with stage.service.client() as http:
            began = time.monotonic()
            answer = http.post("/enqueue", json={"namespace": NAMESPACE, "topic": f"new-{began}", "body": 1})
            assert (answer.status_code, answer.json()["code"]) == (503, "control_unavailable")
            assert time.monotonic() - began < AT_ONCE_S
    finally:
        stage.control.start()
    until(lambda: health(stage)["status"] == "OK", 5)
    with stage.service.client() as http:
        until(
            lambda: http.post("/enqueue", json={"namespace": NAMESPACE, "topic": "new", "body": 1}).status_code == 200,
            3,
        )


def test_a_control_database_that_cannot_be_heard_slows_no_known_topic(stage: Stage, probes: list[Probe]) -> None:
    stage.lines.obey("control", "freeze")
    try:
        for probe in probes:
            assert {turn.status for turn in probe.all_for(4)} == {200}
            assert probe.slowest_s < AT_ONCE_S
    finally:
        stage.lines.obey("control", "thaw")
    until(lambda: health(stage)["status"] == "OK", 10)


Break = Callable[[Stage], object]
REDIS: dict[str, tuple[Break, Break]] = {
    "killed": (lambda stage: stage.redis.kill(stays_down=True), lambda stage: stage.redis.start()),
    "stopped": (lambda stage: stage.redis.suspend(), lambda stage: stage.redis.resume()),
    "refused": (lambda stage: stage.lines.obey("redis", "refuse"), lambda stage: stage.lines.obey("redis", "accept")),
    "silent": (lambda stage: stage.lines.obey("redis", "freeze"), lambda stage: stage.lines.obey("redis", "thaw")),
}


@pytest.mark.parametrize("how", REDIS)
def test_without_redis_everything_goes_on_and_health_says_degraded(stage: Stage, probes: list[Probe], how: str) -> None:
    break_it, mend_it = REDIS[how]
    break_it(stage)
    try:
        for probe in probes:
            assert {turn.status for turn in probe.all_for(2)} == {200}
            assert probe.slowest_s < 2 * AT_ONCE_S
        told = health(stage)
        assert (told["status"], told["redis"]["status"]) == ("degraded", "down")
        until(lambda: is_shown(stage, "redis") == 0.0, 5)
    finally:
        mend_it(stage)
    print(f"slowest call {max(probe.slowest_s for probe in probes):.2f} s")
    until(lambda: health(stage)["status"] == "OK" and is_shown(stage, "redis") == 1.0, 5)
    for probe in probes:
        probe.nothing_is_lost()


def test_a_slow_redis_makes_nobody_slow(stage: Stage, probes: list[Probe]) -> None:
    probe = probes[0]
    stage.lines.obey("redis", "delay", 0.4)
    try:
        assert {turn.status for turn in probe.all_for(3)} == {200}
        assert probe.slowest_s < 2 * AT_ONCE_S
    finally:
        stage.lines.obey("redis", "delay", 0.0)
    until(lambda: health(stage)["status"] == "OK", 5)


def test_flushall_costs_nothing(stage: Stage, probes: list[Probe]) -> None:
    probe = probes[0]
    for _ in range(5):
        stage.redis.tell("FLUSHALL")
        assert {turn.status for turn in probe.all_for(0.5)} == {200}
    probe.nothing_is_lost()


def test_a_subscription_that_died_without_a_word_is_noticed(stage: Stage) -> None:
    """Or consumers that wait would be found by the look that is made each second, and for as long as TCP takes."""
    topic = stage.topics[0]
    stage.lines.obey("redis", "strand")
    time.sleep(6)
    took = []
    with stage.service.client() as http, stage.service.client() as other:
        for _ in range(9):
            http.post("/enqueue", json={"namespace": NAMESPACE, "topic": topic, "body": 1, "delay_ms": 0})
            while http.get(f"/dequeue?namespace={NAMESPACE}&topic={topic}&limit=100").json():
                pass
            took.append(_wakes_after(http, other, topic))
    took.sort()
    print(f"woken after {took}")
    assert took[4] < 0.2


def test_jobs_go_on_where_the_connections_to_redis_died_without_a_word(stage: Stage) -> None:
    """Or Celery would listen to a line that is dead, for as long as TCP takes."""
    with stage.service.client() as http:
        jobs = f"/api/v1/namespaces/{NAMESPACE}/jobs/"

        def run_one() -> float:
            made = http.post(jobs, json={"kind": "replay", "filter": {"topic": stage.topics[0]}, "rate_per_s": 100})
            assert made.status_code == 201, made.text
            return until(lambda: http.get(f"{jobs}{made.json()['id']}/").json()["state"] == "done", 60)

        usual = run_one()
        stage.lines.obey("redis", "strand")
        after = run_one()
    print(f"a job takes {usual:.1f} s, and {after:.1f} s then")
    assert after < 20, "the line ends what is stranded after half a minute"


def _wakes_after(http: httpx.Client, other: httpx.Client, topic: str) -> float:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(http.get, f"/dequeue?namespace={NAMESPACE}&topic={topic}&wait_ms=5000")
        time.sleep(0.25)
        began = time.monotonic()
        other.post("/enqueue", json={"namespace": NAMESPACE, "topic": topic, "body": 1})
        (found,) = waiting.result(10).json()
        took = time.monotonic() - began
    http.post("/ack", json=found)
    return took


def test_a_full_disk_of_redis_is_told_and_stops_nothing(stage: Stage, probes: list[Probe]) -> None:
    if stage.redis.disk is None:
        pytest.skip("no disk that can be full: it takes root, and a system that lets root mount")
    stage.redis.disk.fill()
    for number in range(8):
        stage.redis.tell(f"SET filler-{number} {'x' * 30_000}")
    try:
        until(lambda: [probe.turn().status for probe in probes] == [200, 200] and health(stage)["status"] != "OK", 20)
        for probe in probes:
            assert {turn.status for turn in probe.all_for(2)} == {200}
            assert probe.slowest_s < 2 * AT_ONCE_S
    finally:
        stage.redis.disk.clear()
    until(lambda: health(stage)["status"] == "OK", 10)
    for probe in probes:
        probe.nothing_is_lost()


def test_a_full_disk_of_a_shard_hurts_no_other_and_heals(stage: Stage, probes: list[Probe]) -> None:
    disk = stage.shards[1].disk
    if disk is None:
        pytest.skip("no disk that can be full: it takes root, and a system that lets root mount")
    other, full = probes
    padding = "x" * 200_000
    disk.fill()
    try:
        with stage.service.client() as http:
            body = [{"namespace": NAMESPACE, "topic": stage.topics[3], "body": padding}] * 20
            until(lambda: http.post("/enqueue", json=body).status_code == 503, 30)
        assert 503 in {turn.status for turn in full.all_for(3)}
        assert full.slowest_s < HANG_UP_S
        assert {turn.status for turn in other.all_for(2)} == {200}
        assert other.slowest_s < AT_ONCE_S
    finally:
        disk.clear()
    print(f"back {full.until(200, 15):.2f} s after there was room")
    full.nothing_is_lost()


def test_connections_that_died_without_a_word_are_replaced(stage: Stage, probes: list[Probe]) -> None:
    """The last one here: the other process finds its own dead connections seconds later."""
    probe = probes[0]
    stage.lines.obey("shard 0", "strand")
    took = probe.until(200, 20)
    print(f"well after {took:.2f} s")
    assert probe.slowest_s < HANG_UP_S
    probe.nothing_is_lost()
