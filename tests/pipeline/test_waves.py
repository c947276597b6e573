"""Pieces are cut in waves, and a span goes out when all of its parts are there: no sooner, and not much later."""

import datetime
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqueue.core.conf import Conf
from pipeline import log, replay
from pipeline.door import Door
from pipeline.errors import LogChanged
from pipeline.replay import Wish, begin
from pipeline.shelf import Shelf
from pipeline.spark import Sessions
from pipeline.waves import FIRST, Place, Taken, spans
from shards.retention import connected
from tests.pipeline.past import wait_until_complete
from tests.pipeline.test_replay import bodies_in, door, send, served
from tests.service import Service

__all__ = ["door", "served"]  # fixtures
pytestmark = [pytest.mark.pipeline, pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")]
SECONDS = 120  # messages of the log, one each
Spans = Iterator[list[Place]]


class Cutter:
    """Pieces by the times that they have."""

    def __init__(self, pieces: Sequence[set[int]], bounds: list[int]) -> None:
        self.pieces, self.bounds, self.cut = pieces, bounds, set[int]()

    def __call__(self, numbers: list[int]) -> list[Place]:
        assert not self.cut & set(numbers)
        self.cut |= set(numbers)
        return [
            Place(f"{number}", place, span)
            for number in numbers
            for place, span in enumerate(sorted({bisect_right(self.bounds, at) for at in self.pieces[number]}))
        ]


@given(
    st.lists(st.sets(st.integers(0, 99), min_size=1), max_size=40),
    st.sets(st.integers(1, 99), max_size=12).map(sorted),
)
def test_each_span_has_all_of_its_parts_and_comes_in_its_turn(pieces: list[set[int]], bounds: list[int]) -> None:
    cutter = Cutter(pieces, bounds)
    found = list(spans({number: min(times) for number, times in enumerate(pieces)}, bounds, cutter))
    assert len(found) == (len(bounds) + 1 if pieces else 0)
    for number, places in enumerate(found):
        meant = {f"{n}" for n, times in enumerate(pieces) if number in {bisect_right(bounds, at) for at in times}}
        assert {place.path for place in places} == meant
        assert len(places) == len(meant)
        assert {place.span for place in places} <= {number}


def test_the_first_span_comes_while_most_pieces_are_not_cut() -> None:
    pieces = [set(range(10 * number, 10 * number + 12)) for number in range(40)]
    cutter = Cutter(pieces, bounds := list(range(10, 400, 10)))
    coming = spans({number: min(times) for number, times in enumerate(pieces)}, bounds, cutter)
    next(coming)
    assert len(cutter.cut) <= 6  # a wave, and the next
    coming.close()
    assert len(cutter.cut) <= 6


def test_who_stops_waits_for_the_wave_under_way_so_that_nothing_is_laid_after_him() -> None:
    goes_on, ended = threading.Event(), threading.Event()

    def cut(numbers: list[int]) -> list[Place]:
        if 0 not in numbers:
            assert goes_on.wait(5)
            ended.set()
        return []

    coming = spans({number: number for number in range(9)}, [1, 2], cut)
    next(coming)
    threading.Timer(0.2, goes_on.set).start()
    coming.close()
    assert ended.is_set()


def test_a_part_of_a_span_that_is_out_is_an_error_and_not_left_behind() -> None:
    def cut(numbers: list[int]) -> list[Place]:
        return [Place(f"{number}", 0, 0) for number in numbers]

    coming = spans({number: 10 * number for number in range(9)}, list(range(5, 90, 10)), cut)
    with pytest.raises(LogChanged):
        list(coming)


def test_what_a_wave_fails_of_is_told(tmp_path: Path) -> None:
    def cut(numbers: list[int]) -> list[Place]:
        raise OSError(f"no room for {numbers}")

    with pytest.raises(OSError, match="no room"):
        next(spans({0: 0}, [], cut))


def test_a_file_leaves_the_shelf_with_its_last_part(tmp_path: Path) -> None:
    shelf = Shelf(str(tmp_path), "s")
    tables = [pa.table({"n": [number]}) for number in range(3)]
    path = shelf.lay(tables)
    taken, places = Taken(shelf), [Place(path, number, number) for number in range(3)]
    taken.laid(places)
    assert taken.take(places[:2]) == tables[:2]
    assert (tmp_path / path).exists()
    assert taken.take(places[2:]) == tables[2:]
    assert not (tmp_path / path).exists()


def test_a_log_of_many_pieces_comes_in_its_order_wave_by_wave(
    lake: Conf, served: Service, namespace: str, sessions: Sessions, said: list[str], door: Door,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Of two topics, a message a second each, the first of which has the highest id."""
    now = datetime.datetime.now(datetime.UTC)
    for topic in ("a", "b"):
        send(served, namespace, topic, range(SECONDS))
    for url in lake.shard_urls:
        with connected(url) as connection:
            connection.execute(
                "UPDATE message SET enqueued_at = %s - convert_from(payload, 'UTF8')::int * interval '1 s' "
                "WHERE topic IN (SELECT id FROM topic WHERE namespace = %s)",
                [now, namespace],
            )
    wait_until_complete(lake)
    pieces: list[int] = []

    def noting(begins: Mapping[int, int], bounds: list[int], cut: Callable[[list[int]], list[Place]]) -> Spans:
        pieces.extend(begins)
        return spans(begins, bounds, cut)

    monkeypatch.setattr(log, "PIECE_BYTES", 4_000)
    monkeypatch.setattr(replay, "SPAN_ROWS", 10)
    monkeypatch.setattr(replay, "spans", noting)
    whole = Wish(namespace, None, now - datetime.timedelta(days=2), now + datetime.timedelta(days=1), into="again")
    replay.replay(lake, sessions, begin(lake, whole), said.append, door, None)
    assert len(pieces) > 2 * (2 * FIRST + FIRST)  # several waves
    assert bodies_in(served, namespace, "again") == sorted(2 * [*range(SECONDS)], reverse=True)
