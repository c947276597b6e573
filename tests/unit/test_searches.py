"""Places among dead letters, and how strangers' bytes are shown."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqueue.api.support.payloads import MOST_HEX, MOST_TEXT, shown, visible
from mqueue.core import names
from mqueue.core.searches import TOP, Place, place_of

times = st.datetimes(datetime(1971, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  it gets one


@given(died_at=times, number=st.integers(0, 2**53 - 1))
def test_a_place_reads_as_it_was_written(died_at: datetime, number: int) -> None:
    assert place_of(Place(died_at, number).written()) == Place(died_at, number) < TOP


NO_PLACES = ["", "x", "-", "5", "5-", "-5", "²-1", "1-²", "9" * 19 + "-1", "1-" + "9" * 17, "9" * 5000 + "-1"]


@pytest.mark.parametrize("text", NO_PLACES)
def test_what_is_no_place_is_the_top(text: str) -> None:
    assert place_of(text) == TOP


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)]
    + [(text, None) for text in ("", "-1", "1 ", "1\n", "²", "٣", "1_0", "9" * 19, "0" * 19, "9" * 5000)],
)
def test_a_number_is_of_few_digits_and_of_those_that_everybody_reads(text: str, number: int | None) -> None:
    assert names.number(text) == number


def test_a_time_that_there_is_not_is_the_latest_that_there_is() -> None:
    assert place_of("9" * 18 + "-1").died_at.year == 9999


@given(st.binary(max_size=300))
def test_any_bytes_are_shown_and_none_of_them_are_hidden(payload: bytes) -> None:
    found = shown(payload)
    assert found.size == len(payload)
    assert not found.is_cut
    assert all(one in "\n\t" or one.isprintable() for one in found.text)


@pytest.mark.parametrize(
    ("payload", "kind", "text"),
    [
        (b'{"b":1.10,"a":[1,{}]}', "JSON", '{\n  "b": 1.10,\n  "a": [\n    1,\n    {}\n  ]\n}'),
        (b'{"a":1,"a":2}', "JSON", '{\n  "a": 1,\n  "a": 2\n}'),
        ("grün & <b>".encode(), "text", "grün & <b>"),
        (b"a\x00b", "hex", f"00000000  {'61 00 62':<48} a.b"),
        (b"\xff", "hex", f"00000000  {'ff':<48} ."),
        (b"", "text", ""),
        ("a\u202eb\x1b[31m".encode(), "text", "a\\u202eb\\x1b[31m"),
    ],
)
def test_json_is_indented_as_it_was_sent_text_is_text_and_the_rest_is_hex(payload: bytes, kind: str, text: str) -> None:
    assert shown(payload)[:2] == (kind, text)


def test_of_what_is_long_the_beginning_is_shown() -> None:
    text = shown("ü".encode() * MOST_TEXT)
    assert (text.kind, text.is_cut, text.text[:3]) == ("text", True, "üüü")
    assert len(text.text) <= MOST_TEXT
    cut_through = shown(b"a" + "ü".encode() * MOST_TEXT)
    assert (cut_through.kind, cut_through.is_cut) == ("text", True)
    dump = shown(b"\xff" * (MOST_HEX + 1))
    assert (dump.kind, dump.is_cut, dump.text.count("\n")) == ("hex", True, MOST_HEX // 16 - 1)


def test_letters_stay_what_they_are() -> None:
    assert visible("naïve\n\t日本 😀") == "naïve\n\t日本 😀"
    assert visible("\u200b\u2066x\u2028") == "\\u200b\\u2066x\\u2028"
