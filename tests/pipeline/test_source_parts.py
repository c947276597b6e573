"""What the data source decides without a server: options, batches and their parts, keys, conditions."""

import base64
import datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark

from pipeline.errors import PipelineError
from pipeline.layout import EVENT, MESSAGE
from pipeline.log import days_between
from pipeline.pieces import Piece
from pipeline.source.filters import comparisons, names_chosen
from pipeline.source.options import read_options
from pipeline.source.outgoing import Outgoing, write_options
from pipeline.source.planning import days_of
from pipeline.source.sizes import Size, admit, cut
from pipeline.source.writing import grouped
from pipeline.times import moment

pytestmark = [pytest.mark.pipeline]
HERE, THERE = Piece("message", 0, 100, path="a"), Piece("message", 0, 100, path="b")


def sizes(*rows: int, place: Piece = HERE) -> list[Size]:
    """Transactions 10, 20, … of so many rows, a byte each."""
    return [Size(10 * number, count, count, {place}) for number, count in enumerate(rows, 1)]


def test_a_batch_ends_where_the_next_transaction_would_be_too_much() -> None:
    assert admit([sizes(3, 3, 3)], 6) == [30]
    assert admit([sizes(3, 3, 3)], 9) == [None]
    assert admit([sizes(3, 3, 3)], 8) == [30]
    assert admit([sizes(50, 1)], 6) == [20]
    assert admit([[], sizes(1)], 6) == [None, None]


def test_shards_get_shares_by_what_they_have_and_none_waits_for_another() -> None:
    many, few = sizes(*[1] * 90), sizes(*[1] * 10)
    assert admit([many, few], 50) == [460, 60]
    assert admit([many, sizes(1)], 2) == [20, None]


def test_parts_hold_every_transaction_once_and_know_where_it_lies() -> None:
    found = [*sizes(4, 4, 4, 40, 1), Size(60, 2, 2, {THERE})]
    parts = list(cut(found, most_rows=10))
    assert [(part.low, part.high) for part in parts] == [(10, 21), (30, 31), (40, 41), (50, 61)]
    assert parts[3].places == {HERE, THERE}
    assert [(part.low, part.high) for part in cut(found, 1000, most_bytes=8)] == [
        (10, 21),
        (30, 31),
        (40, 41),
        (50, 61),
    ]
    assert list(cut([], 10)) == []


def test_options_are_read_as_kafka_s_are_and_wrong_ones_are_named() -> None:
    asked = read_options({"startingTimestamp": "1763467200000", "topic": "a, b", "namespace": "n", "log": "event"})
    assert asked.first == datetime.datetime(2025, 11, 18, 12, tzinfo=datetime.UTC)
    assert (asked.topics, asked.layout) == (("a", "b"), EVENT)
    assert read_options({"startingOffsets": '{"0": 7}'}).starting == {0: 7}
    assert read_options({"endingTimestamp": "2026-01-01"}).last == datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    for wrong in (
        {"startingoffsets": "first"}, {"startingoffsets": "[1]"}, {"rowsperpartition": "0"}, {"topic": "t"},
        {"log": "delivery"}, {"endingtimestamp": "soon"}, {"password": "x"},
    ):  # fmt: skip
        with pytest.raises(PipelineError, match=next(iter(wrong))):
            read_options(wrong)


def test_a_time_elsewhere_is_of_the_day_that_it_is_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log's days are: half past midnight in Rome is the day before."""
    days = [datetime.date(2026, 11, number) for number in (16, 17, 18, 19)]
    first, last = "2026-11-18T00:30+01:00", "2026-11-18T20:00-05:00"
    assert days_between(moment(first), moment(last), 0) == {*days[1:]}
    assert moment(first).isoformat() == "2026-11-17T23:30:00+00:00"
    assert moment("2026-11-18").isoformat() == "2026-11-18T00:00:00+00:00"
    monkeypatch.setattr("pipeline.log.all_days", lambda _: frozenset(days))
    asked = read_options({"log": "event", "startingTimestamp": first, "endingTimestamp": last})
    assert days_of(asked) == {*days[1:]}
    with pytest.raises(ValueError, match="beyond"):
        moment("0001-01-01T00:00+01:00")


def outgoing(columns: list[str], prefix: str = "q:1", task: int = 0, **options: str) -> Outgoing:
    return Outgoing(write_options({"namespace": "n", "topic": "t"} | options, columns), prefix, task)


def sent(rows: list[dict[str, Any]], by: Outgoing) -> list[Any]:
    return [msgspec.json.decode(one) for one in by.messages(pa.RecordBatch.from_pylist(rows))]


def keys(rows: list[dict[str, Any]], **how: Any) -> list[str]:
    return [one["idempotency_key"] for one in sent(rows, outgoing(list(rows[0]), **how))]


def test_a_batch_that_is_done_again_has_the_same_keys_in_whatever_order_its_rows_come() -> None:
    rows = [{"body": str(n % 4)} for n in range(10)]
    first = keys(rows)
    assert len(set(first)) == 10
    assert sorted(keys(rows[::-1])) == sorted(first)
    assert not set(keys(rows, task=1)) & set(first)
    assert not set(keys(rows, prefix="q:2")) & set(first)


def test_a_column_names_the_key_and_a_key_of_its_own_stays() -> None:
    rows = [{"body": "1", "lead": 7}, {"body": "1", "lead": 8}]
    assert keys(rows, keyColumn="lead") == ["q:1:7", "q:1:8"]
    assert keys([{"body": "1", "idempotency_key": "mine"}]) == ["mine"]
    (long,) = keys([{"body": "1", "lead": "x" * 300}], keyColumn="lead")
    assert len(long) <= 255
    assert long != keys([{"body": "1", "lead": "x" * 301}], keyColumn="lead")[0]
    with pytest.raises(PipelineError, match="lead is null"):
        keys([{"body": "1", "lead": None}], keyColumn="lead")


def test_columns_become_the_fields_of_a_message() -> None:
    later = datetime.datetime(2026, 11, 18, 12, tzinfo=datetime.UTC)
    row = {
        "body": '{"a": [1, 2.50]}', "payload": b"ignored", "priority": 3, "headers": '{"h": "1"}', "ttl_ms": None,
        "deliver_after": later, "topic": "other",
    }  # fmt: skip
    (message,) = sent([row], outgoing(list(row)))
    assert message.pop("idempotency_key")
    assert message == {
        "namespace": "n", "topic": "other", "body": {"a": [1, 2.5]}, "priority": 3, "headers": {"h": "1"},
        "deliver_after": "2026-11-18T12:00:00Z",
    }  # fmt: skip
    (binary,) = sent([{"body": None, "payload": b"\0\xff"}], outgoing(["body", "payload"]))
    assert base64.b64decode(binary["payload"]) == b"\0\xff"
    (struct,) = sent([{"body": {"a": 1}}], outgoing(["body"]))
    assert struct["body"] == {"a": 1}


def test_what_cannot_be_sent_is_refused_before_anything_is() -> None:
    for columns, options in (
        (["body", "prioriy"], {}), (["id"], {}), (["body"], {"keyColumn": "id"}), (["body"], {"jwt_secret": "x"}),
        (["body"], {"namespace": ""}), (["body"], {"name": "n" * 101}),
    ):  # fmt: skip
        with pytest.raises(PipelineError):
            outgoing(columns, **options)


def test_requests_stay_small() -> None:
    assert [len(group) for group in grouped(iter([b"x"] * 2500))] == [1000, 1000, 500]
    assert [len(group) for group in grouped(iter([b"x" * (3 << 20)] * 3))] == [1, 1, 1]
    assert list(grouped(iter([]))) == []


def test_filters_become_conditions_of_numbers_and_times_alone() -> None:
    later = datetime.datetime(2026, 11, 18, 12, tzinfo=datetime.UTC)
    given = [
        spark.EqualTo(("priority",), 3), spark.In(("id",), (1, 2)), spark.GreaterThanOrEqual(("enqueued_at",), later),
        spark.EqualTo(("headers",), "x"), spark.Not(spark.EqualTo(("id",), 1)), spark.EqualTo(("is_json",), True),
        spark.EqualTo(("topic",), "a"), spark.In(("topic",), ("a", "b")), spark.LessThan(("enqueued_at",), "x"),
    ]  # fmt: skip
    assert [test.of_sql() for test in comparisons(MESSAGE, given)] == [
        "priority = (3)", "id in (1, 2)", "enqueued_at >= (timestamptz '2026-11-18T12:00:00+00:00')",
    ]  # fmt: skip
    assert names_chosen(given, "topic") == {"a"}
    assert names_chosen(given, "namespace") is None
