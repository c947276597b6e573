"""Of a log that many share, a reader fetches what is its own."""

import datetime

import pytest

from mqueue.core.conf import Conf
from pipeline import log
from pipeline.layout import LAYOUTS
from pipeline.log import Wanted, counted_pieces, every_topic, horizons, pieces, topics_named
from pipeline.pieces import Piece, few
from pipeline.pull import pull
from shards.retention import connected
from tests.pipeline.past import wait_until_complete
from tests.pipeline.test_replay import send, served
from tests.service import Service

__all__ = ["served"]  # a fixture
pytestmark = pytest.mark.pipeline


@pytest.mark.parametrize("parent", ["message", "event"])
def test_a_topic_of_few_is_not_read_among_those_of_many(
    lake: Conf, served: Service, namespace: str, parent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic, bodies in (("rare", range(2)), ("common", range(100)), ("rare", range(2, 4))):
        cancel(served, namespace, topic, send(served, namespace, topic, bodies))
    wait_until_complete(lake)
    monkeypatch.setattr(log, "PIECE_BYTES", 2_000)
    today = frozenset([datetime.datetime.now(datetime.UTC).date()])
    below, names = horizons(lake), topics_named(lake, namespace, "rare")
    (piece,) = pieces(lake, parent, Wanted(today, names), below)
    assert rows_of(piece, few(names)) == 4
    assert piece.rows < 100
    assert len(pieces(lake, parent, Wanted(today, topics_named(lake, namespace, None)), below)) > 4


def test_who_wants_very_many_topics_reads_them_all(lake: Conf, served: Service, namespace: str) -> None:
    send(served, namespace, "t", range(3))
    wait_until_complete(lake)
    everything = every_topic(lake) | {-number: (namespace, f"no-{number}") for number in range(1, 1_001)}
    assert few(everything) is None
    today = frozenset([datetime.datetime.now(datetime.UTC).date()])
    found = pieces(lake, "message", Wanted(today, everything), horizons(lake))
    assert sum(rows_of(piece, None) for piece in found) >= 3


def test_a_range_of_times_is_counted_where_it_lies(lake: Conf, served: Service, namespace: str) -> None:
    send(served, namespace, "t", range(30))
    then = datetime.datetime.now(datetime.UTC).replace(microsecond=0) - datetime.timedelta(hours=1)
    for url in lake.shard_urls:
        with connected(url) as connection:
            connection.execute(
                "UPDATE message SET enqueued_at = %s + (convert_from(payload, 'UTF8')::int / 10) * interval '1 s' "
                "WHERE topic IN (SELECT id FROM topic WHERE namespace = %s)",
                [then, namespace],
            )
    wait_until_complete(lake)
    wanted = Wanted(frozenset([datetime.datetime.now(datetime.UTC).date()]), topics_named(lake, namespace, None))
    until = then + datetime.timedelta(seconds=2)
    ((piece, counts),) = counted_pieces(lake, wanted, horizons(lake), then, until)
    first = int(then.timestamp())
    assert counts == [(first, 10, 10), (first + 1, 10, 20)]  # numbers of one and of two digits
    assert (piece.rows, rows_of(piece, few(wanted.names))) == (20, 20)
    assert not counted_pieces(lake, wanted, horizons(lake), then - datetime.timedelta(hours=1), then)


def cancel(served: Service, namespace: str, topic: str, ids: list[int]) -> None:
    """So that there is an event of each."""
    with served.client() as http:
        for number in ids:
            answer = http.delete(f"/messages/{number}", params={"namespace": namespace, "topic": topic})
            assert answer.status_code == 200, answer.text


def rows_of(piece: Piece, topics: list[int] | None) -> int:
    return int(pull(LAYOUTS[piece.parent], piece.shard, piece.day, piece.low, piece.high, topics=topics).num_rows)
