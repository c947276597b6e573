"""What a redrive looks for is the longest part of an error that is always the same."""

import pytest

from mqueue.core.redrive import LONGEST, MASKS, before, search_for


@pytest.mark.parametrize(
    ("fingerprint", "sample", "error"),
    [
        ("timeout", "timeout", "timeout"),
        ("mailbox of user<n> is full (<n>)", "mailbox of user17 is full (552)", "mailbox of user"),
        ("<time> <n> no such <text> in <hex>", "2026-01-01T00:00Z 7 no such 'a' in 0xff", "no such"),
        ("no such user, it says", "no such\nuser, it says", None),  # the fingerprint has other blanks than the error
        ("<n>", "17", None),
        ("", "", None),
        ("x" * 300, "x" * 400, "x" * LONGEST),
    ],
)
def test_the_search_finds_the_sample(fingerprint: str, sample: str, error: str | None) -> None:
    found = search_for("t", "rejected", fingerprint, sample)
    assert (found.topic, found.reason, found.error) == ("t", "rejected", error)


def test_the_advice_is_of_the_reason() -> None:
    assert "ttl" in before("expired")
    assert "producer" in before("rejected")
    assert "cause" in before("max_retries")
    assert len(set(MASKS)) == len(MASKS)
