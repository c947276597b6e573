"""From bytes to typed requests."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqueue.api.requests import parse, parse_enqueue, parse_query, parse_settles
from mqueue.core.errors import Invalid, MqueueError, TooLarge
from mqueue.core.messages import Dequeue, Find, Nack, Settle, StatsPage

GOOD: dict[str, Any] = {"namespace": "a", "topic": "t", "body": 1}


def bad(*fields: Any, parse: Any = parse_enqueue) -> list[dict[str, Any]]:
    with pytest.raises(Invalid) as caught:
        parse(json.dumps(list(fields)).encode())
    errors: list[dict[str, Any]] = caught.value.extra["errors"]
    return errors


def test_one_object_and_an_array_are_both_read() -> None:
    assert parse_enqueue(json.dumps(GOOD).encode()) == parse_enqueue(json.dumps([GOOD]).encode())


def test_defaults_are_the_contracts() -> None:
    message = parse_enqueue(json.dumps(GOOD).encode())[0]
    assert (message.priority, message.deliver_after, message.ttl_ms, message.max_retries) == (5, None, None, None)


def test_unknown_fields_are_ignored() -> None:
    assert parse_enqueue(json.dumps(GOOD | {"colour": "red"}).encode())


def test_a_payload_is_base64_and_may_hold_anything() -> None:
    raw = bytes(range(256))
    one = {"namespace": "a", "topic": "t", "payload": base64.b64encode(raw).decode()}
    message = parse_enqueue(json.dumps(one).encode())[0]
    assert message.content == raw
    assert not message.is_json


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_a_body_comes_back_equal(value: Any) -> None:
    message = parse_enqueue(json.dumps(GOOD | {"body": value}).encode())[0]
    assert json.loads(message.content) == value
    assert message.is_json


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"namespace": "A"}, "namespace"),
        ({"namespace": ""}, "namespace"),
        ({"namespace": "a\n"}, "namespace"),
        ({"namespace": "a" * 64}, "namespace"),
        ({"namespace": None}, "namespace"),
        ({"topic": "-t"}, "topic"),
        ({"topic": "t" * 129}, "topic"),
        ({"topic": "a b"}, "topic"),
        ({"topic": 7}, "topic"),
        ({"payload": "AA=="}, "payload"),
        ({"priority": -1}, "priority"),
        ({"priority": 256}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"priority": "1"}, "priority"),
        ({"deliver_after": "tomorrow"}, "deliver_after"),
        ({"deliver_after": "2026-01-01T00:00:00"}, "deliver_after"),
        ({"deliver_after": (datetime.now(UTC) + timedelta(days=91)).isoformat()}, "deliver_after"),
        ({"delay_ms": -1}, "delay_ms"),
        ({"delay_ms": 91 * 86_400_000}, "delay_ms"),
        ({"delay_ms": 1, "deliver_after": "2026-01-01T00:00:00Z"}, "delay_ms"),
        ({"ttl_ms": 0}, "ttl_ms"),
        ({"idempotency_key": "k" * 256}, "idempotency_key"),
        ({"headers": {"a": 1}}, "headers"),
        ({"headers": {str(n): "" for n in range(33)}}, "headers"),
        ({"headers": {"a": "x" * 8192}}, "headers"),
        ({"headers": {"a": "\0"}}, "headers"),
        ({"traceparent": "nonsense"}, "traceparent"),
        ({"traceparent": f"ff-{'a' * 32}-{'a' * 16}-01"}, "traceparent"),
        ({"traceparent": f"00-{'a' * 32}-{'a' * 16}-01-more"}, "traceparent"),
        ({"traceparent": f"cc-{'a' * 32}-{'a' * 16}-01more"}, "traceparent"),
        ({"traceparent": f"00-{'0' * 32}-{'a' * 16}-01"}, "traceparent"),
        ({"traceparent": f"00-{'a' * 32}-{'0' * 16}-01"}, "traceparent"),
        ({"max_retries": 1001}, "max_retries"),
        ({"retry": {"strategy": "random"}}, "retry"),
        ({"retry": {"jitter": 2}}, "retry"),
    ],
)
def test_a_bad_field_is_named_with_its_index(change: dict[str, Any], field: str) -> None:
    errors = bad(GOOD, GOOD | change)
    assert [(error["index"], error["field"]) for error in errors] == [(1, field)]
    assert errors[0]["detail"]


def test_every_bad_message_of_a_batch_is_named() -> None:
    far = (datetime.now(UTC) + timedelta(days=91)).isoformat()
    neither = {"namespace": "a", "topic": "t"}
    errors = bad(GOOD | {"priority": 256}, GOOD, {"topic": "t", "body": 1}, neither, GOOD | {"deliver_after": far})
    named = [(error["index"], error["field"]) for error in errors]
    assert named == [(0, "priority"), (2, "namespace"), (3, "payload"), (4, "deliver_after")]


@pytest.mark.parametrize(("version", "more"), [("00", ""), ("cc", ""), ("cc", "-what-the-future")])
def test_trace_contexts_of_versions_to_come_are_taken(version: str, more: str) -> None:
    given = f"{version}-{'a' * 32}-{'a' * 16}-01{more}"
    (message,) = parse_enqueue(json.dumps(GOOD | {"traceparent": given}).encode())
    assert message.traceparent == given


def test_half_a_surrogate_pair_is_named() -> None:
    """Neither PostgreSQL's jsonb nor most clients take it; what is escaped twice, or whole, is a text like others."""
    fine = [{"body": "😀"}, {"body": r"\ud83d"}, {"body": {r"\ud83d": ["😀😀"]}}]
    halved = [{"body": "a\ud83d"}, {"headers": {"a": "\ude00\ud83d"}, "body": 1}, {"body": {"\ud83d": 1}}]
    errors = bad(*(GOOD | one for one in [*fine, *halved]))
    assert [(error["index"], error["field"]) for error in errors] == [(3, "body"), (4, "headers"), (5, "body")]
    assert bad(GOOD | {"body": "\udfff"})[0]["field"] == "body"
    assert [json.loads(one.content) for one in parse_enqueue(json.dumps([GOOD | one for one in fine]).encode())] == [
        one["body"] for one in fine
    ]


@pytest.mark.parametrize("body", [rb'"\ud8zz"', rb'"\ud8"'])
def test_what_is_no_escape_is_not_taken_for_a_half(body: bytes) -> None:
    for read, whole in (
        (parse_enqueue, rb'{"namespace":"a","topic":"t","body":%b}' % body),
        (lambda one: parse_settles(one, Nack), rb'{"id":1,"namespace":"a","topic":"t","error":%b}' % body),
    ):
        with pytest.raises(Invalid, match="cannot be read"):
            read(whole)


@pytest.mark.parametrize("more", ["1" * 5_000, "[" * 990 + "]" * 990], ids=["digits", "brackets"])
def test_halves_beside_what_python_does_not_read_are_refused_too(more: str) -> None:
    with pytest.raises(Invalid):
        parse_enqueue(rb'{"namespace":"a","topic":"t","body":["\ud83d",%b]}' % more.encode())


def test_an_error_that_was_cut_in_an_emoji_is_kept() -> None:
    place = {"id": 1, "namespace": "a", "topic": "b"}
    (nack,), _ = parse_settles(json.dumps(place | {"error": "😀 \ud83d"}).encode(), Nack)
    assert nack.error == "😀 \ufffd"


@pytest.mark.parametrize("parse", [parse_enqueue, lambda body: parse_settles(body, Settle)])
def test_not_each_of_a_million_bad_elements_is_named(parse: Any) -> None:
    assert bad(*[1] * 1_000_000, parse=parse) == []


def test_neither_payload_nor_body_is_named() -> None:
    assert bad({"namespace": "a", "topic": "t"})[0]["field"] == "payload"


@pytest.mark.parametrize(
    "body",
    [b"", b"[", b"[]", b"7", b"null", b'"x"', b"[7]", b"\xff", b"[" * 5000, json.dumps([GOOD] * 10_001).encode()],
)
def test_what_is_no_list_of_messages_is_refused(body: bytes) -> None:
    with pytest.raises(Invalid):
        parse_enqueue(body)


def test_a_payload_over_the_limit_is_too_large() -> None:
    limit = 256 * 1024
    fits = {"namespace": "a", "topic": "t", "payload": base64.b64encode(b"x" * limit).decode()}
    parse_enqueue(json.dumps(fits).encode())
    with pytest.raises(TooLarge):
        parse_enqueue(json.dumps(fits | {"payload": base64.b64encode(b"x" * (limit + 1)).decode()}).encode())
    with pytest.raises(TooLarge):
        parse_enqueue(json.dumps(GOOD | {"body": "x" * limit}).encode())


def test_an_array_of_just_so_many_bad_elements_names_them_all() -> None:
    assert len(bad(*[1] * 10_000)) == 10_000


@pytest.mark.parametrize("more", [b"&", b"&&", b"&verbose", b"&verbose&x=1", b"&=", b"&verbose="])
def test_unknown_fields_of_a_query_are_ignored_with_a_value_or_without(more: bytes) -> None:
    assert parse_query(b"namespace=a&topic=t" + more, Dequeue) == Dequeue("a", "t")


def test_a_dequeue_reads_the_same_from_query_and_body() -> None:
    from_query = parse_query(b"namespace=a&topic=t&limit=7&visibility_ms=1000&wait_ms=5", Dequeue)
    fields = {"namespace": "a", "topic": "t", "limit": 7, "visibility_ms": 1000, "wait_ms": 5}
    assert parse(json.dumps(fields).encode(), Dequeue) == from_query


@pytest.mark.parametrize(
    "query",
    [
        b"",
        b"namespace=a",
        b"namespace=a&topic=t&limit=0",
        b"namespace=a&topic=t&limit=1001",
        b"namespace=a&topic=t&limit=x",
        b"namespace=a&topic=t&limit",
        b"namespace=a&topic=t&visibility_ms=999",
        b"namespace=a&topic=t&wait_ms=20001",
        b"namespace=%ff&topic=t",
        b"&&&=",
        b"\xff",
    ],
)
def test_a_bad_dequeue_is_refused(query: bytes) -> None:
    with pytest.raises(Invalid):
        parse_query(query, Dequeue)


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        (b"namespace=a&after=%00", StatsPage),
        (b"namespace=a&idempotency_key=a%00b", Find),
        (b"namespace=a&idempotency_key=%ff", Find),
        (b"namespace=a&after=" + b"x" * 129, StatsPage),
    ],
)
def test_what_no_column_can_hold_is_not_looked_for(query: bytes, kind: type[Any]) -> None:
    with pytest.raises(Invalid):
        parse_query(query, kind)


def test_settles_come_alone_or_in_an_array() -> None:
    one = b'{"id": 7, "namespace": "a", "topic": "t"}'
    assert parse_settles(one, Settle)[1] is False
    assert parse_settles(b"[" + one + b"]", Settle)[1] is True


@pytest.mark.parametrize("message_id", ["-1", str(2**53), "1.5", '"7"', "null"])
def test_an_id_is_an_integer_below_2_to_the_53(message_id: str) -> None:
    with pytest.raises(Invalid):
        parse_settles(f'{{"id": {message_id}, "namespace": "a", "topic": "t"}}'.encode(), Settle)


@pytest.mark.parametrize(
    "body",
    [
        b'{"namespace": "a", "topic": "t", "body": "\xff\xfe"}',
        b'[{"namespace": "\xff", "topic": "t", "body": 1}]',
        b'{"namespace": "a", "topic": "t", "body": 1, "headers": {"a": "\xc3"}}',
    ],
)
def test_what_is_not_utf_8_is_refused_and_not_passed_on(body: bytes) -> None:
    with pytest.raises(Invalid):
        parse_enqueue(body)


@given(st.binary(max_size=300))
def test_no_bytes_make_parsing_fail_otherwise(body: bytes) -> None:
    for read in (
        parse_enqueue,
        lambda body: parse_settles(body, Settle),
        lambda body: parse(body, Dequeue),
        lambda body: parse_query(body, Dequeue),
    ):
        try:
            read(body)
        except MqueueError as error:
            assert error.http_status in (400, 413)
