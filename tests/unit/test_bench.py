"""The bench's own rules: a client that misreads answers, or a table that divides wrongly, would lie quietly."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import plot, publish, report
from bench.client import Connection, Refused, Requests
from bench.rows import LIMIT, Curve, Row, Series
from bench.scenes import SCENES, all_names
from bench.scripts import SCRIPTS, Tally
from mqueue.core.conf import ROOT

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\nhello world"
PAGE = (ROOT / "docs/performance.md").read_text()


class Listening(Connection):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[bytes] = []
        self.failures: list[Exception] = []

    def answered(self, body: bytes) -> None:
        self.heard.append(body)

    def failed(self, error: Exception) -> None:
        self.failures.append(error)


@pytest.mark.parametrize("size", [1, 2, 7, 40, 79, 85, 1000])
def test_answers_are_whole_however_they_are_cut(size: int) -> None:
    connection = Listening()
    for _ in range(3):
        for at in range(0, len(ANSWER), size):
            connection.data_received(ANSWER[at : at + size])
    assert connection.heard == [b"hello world"] * 3
    assert not connection.failures


def test_an_empty_body_is_an_answer() -> None:
    connection = Listening()
    connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    assert connection.heard == [b""]


@pytest.mark.parametrize("status", ["400 Bad Request", "409 Conflict", "503 Service Unavailable"])
def test_anything_but_success_fails_the_run(status: str) -> None:
    connection = Listening()
    connection.data_received(ANSWER.replace(b"200 OK", status.encode()))
    assert not connection.heard
    assert isinstance(connection.failures[0], Refused)


def test_a_lost_connection_fails_the_run_and_a_closed_one_does_not() -> None:
    lost, closed = Listening(), Listening()
    lost.connection_lost(None)
    closed.close()
    closed.connection_lost(None)
    assert lost.failures
    assert not closed.failures


def test_concurrent_drains_count_every_message() -> None:
    """Each adds what it settled to a sum that others change while it waits for its answer."""
    tally = Tally({"connections": 2, "topic": "t", "limit": 1})
    one, other = SCRIPTS["drain"](Requests("token"), tally)
    leased = b'[{"id":1,"receipt":"x"}]'
    for script in (one, other):
        next(script)
        script.send(leased)
    for script in (one, other):
        script.send(b'[{"id":1,"state":"acked"}]')
    assert tally.done == 2


def test_a_lease_that_was_not_settled_fails_the_run() -> None:
    (script,) = SCRIPTS["drain"](Requests("token"), Tally({"connections": 1, "topic": "t"}))
    next(script)
    script.send(b'[{"id":1,"receipt":"x"}]')
    with pytest.raises(Refused):
        script.send(b'[{"id":1,"code":"stale_receipt"}]')


def test_an_empty_topic_ends_a_drain() -> None:
    (script,) = SCRIPTS["drain"](Requests("token"), Tally({"connections": 1, "topic": "t"}))
    next(script)
    with pytest.raises(Refused):
        script.send(b"[]")


def test_a_producer_waits_while_the_queue_is_as_deep_as_it_shall_be() -> None:
    spec = {"producers": 1, "consumers": 1, "topic": "t", "batch": 10, "limit": 10, "depth": 10}
    tally = Tally(spec)
    produce, consume = SCRIPTS["circulate"](Requests("token"), tally)
    tally.goes = [lambda: woken.append(1), lambda: None]
    woken: list[int] = []
    assert next(produce)
    assert produce.send(b"[]") is None
    next(consume)
    consume.send(b'[{"receipt":"x"}]')
    consume.send(b'[{"state":"acked"}]')
    assert woken
    assert next(produce)


def test_a_ratio_divides_like_by_like() -> None:
    row = Row("r", "", "", Series("", [10, 30, 20]), Series("", [5, 10, 20]), at_least=1.5)
    assert (row.value("best"), row.value("median"), row.holds) == (1.5, 2.0, True)


def test_of_what_shall_be_small_the_best_is_the_smallest() -> None:
    row = Row("r", "", "ms", Series("", [4, 9, 6]), at_most=5)
    assert (row.value("best"), row.value("median"), row.holds) == (4, 6, False)


def test_of_times_the_best_is_the_smallest_with_a_bar_or_without() -> None:
    assert Row("r", "", "ms", Series("", [4, 9, 6])).value("best") == 4
    assert Row("r", "", "us", Series("", [30, 20, 10]), Series("", [5, 2, 4])).value("best") == 5


def test_the_figures_beside_a_ratio_give_that_ratio() -> None:
    row = report.as_json(Row("r", "", "us", Series("with", [3000, 100, 2000]), Series("without", [900, 1000, 9000])))
    assert report.shape(row, row["value"]["median"]) == "2.00"
    assert report.origin(row) == "2,000 us with / 1,000 us without"


@pytest.mark.parametrize(("value", "text"), [(37.94, "37.9 ms"), (2090, "2,090 ms")])
def test_a_figure_has_its_unit_however_large(value: float, text: str) -> None:
    row = report.as_json(Row("r", "looks", "ms", Series("looks", [value])))
    assert report.shape(row, value) == text


def test_a_bar_tells_what_is_thought_possible() -> None:
    assert report.bar(report.as_json(Row("r", "", "", at_least=0.25, goal=0.45))) == ">= 0.25, goal 0.45"


def test_what_a_message_costs_is_said_of_rates_alone() -> None:
    """What a flood costs is not the price of its neighbour's few messages."""
    cost = {"wal_bytes": 1}
    rows = [
        report.as_json(Row("a", "", "messages/s", Series("fast", [1], costs=[cost]))),
        report.as_json(Row("b", "", "us", Series("neighbour", [1], costs=[{"wal_bytes": 2}]))),
    ]
    assert report.costs(rows) == {"fast": cost}


def test_what_was_not_measured_says_why() -> None:
    row = report.as_json(Row("overhead", "", "", at_least=0.8, note="no switch"))
    assert row["holds"] is None
    assert "not measured" in "\n".join(report.table([row]))
    assert "no switch" in publish.bar_line(row)


LIMITS = [f"{LIMIT}{n}" for n in range(5)]


def test_what_a_message_costs_tells_the_dead_rows_that_it_leaves() -> None:
    cost = {
        "wal_bytes": 700.2, "transactions": 0.5, "cpu_us": dict.fromkeys(report.PARTS, 1.0), "cores_of_others": 0.0,
        "waits": {"CPU": 0.5}, "dead_rows": {"delivery": 110187, "tally": 33, "level": 1},
    }  # fmt: skip
    rows = [report.as_json(Row("a", "", "messages/s", Series("drained", [1], costs=[cost])))]
    assert [*report.cost_table(rows)][-1].endswith("CPU 0.5; delivery 110,187, tally 33")
    assert [*publish.cost_section(rows)][-1].endswith("| CPU 0.5 | delivery 110,187, tally 33 |")


@pytest.fixture
def curve() -> Curve:
    drawn = Curve("curve_waiting", "more", "messages waiting", "messages/s")
    for x in (0, 1_000, 2_000_000):
        drawn.add(x, {"one": (x / 7, {}), "other": (None if x else 5.0, {})} | dict.fromkeys(LIMITS, (9.0, {})))
    return drawn


def test_a_curve_is_drawn_within_its_picture(curve: Curve) -> None:
    picture = ET.fromstring(plot.svg(report.curve_as_json(curve)))
    for point in points(picture):
        assert 0 <= point[0] <= plot.WIDTH
        assert 0 <= point[1] <= int(picture.attrib["viewBox"].split()[3])
    assert len(list(points(picture))) >= 4


def points(picture: ET.Element) -> Iterator[tuple[float, float]]:
    for circle in picture.iter("{http://www.w3.org/2000/svg}circle"):
        yield float(circle.attrib["cx"]), float(circle.attrib["cy"])


def test_figures_are_renewed_between_their_markers(curve: Curve, tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text("before <!-- bench:curve_waiting -->old<!-- /bench:curve_waiting --> after")
    found = json.loads(json.dumps({"rows": [], "curves": [report.curve_as_json(curve)]}))
    publish.publish(page, [found])
    once = page.read_text()
    publish.publish(page, [found])
    assert page.read_text() == once
    assert once.startswith("before ")
    assert once.endswith(" after")
    assert "old" not in once
    assert "2,000,000" in once
    assert (tmp_path / "figures/curve_waiting.svg").stat().st_size < 20_000


def test_the_page_has_a_place_for_every_figure() -> None:
    places = set(re.findall(r"<!-- bench:(\w+) -->", PAGE))
    assert places == {
        "bars",
        "costs",
        "peers",
        "pipeline",
        *(name for name in all_names() if name.startswith("curve_")),
    }
    assert places == set(re.findall(r"<!-- /bench:(\w+) -->", PAGE))


def test_the_page_explains_every_row() -> None:
    explained = set(re.findall(r"`(\w+)…?`", PAGE))
    for scene in SCENES:
        for name in scene.names:
            if not name.startswith(("curve_", "peer_")):
                assert name in explained or name.partition("_")[0] + "_" in explained, name
