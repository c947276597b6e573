"""Receipts name one lease."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqueue.core.receipts import seal, unseal


@given(st.integers(0, 2**53 - 1), st.integers(0, 2**31 - 1))
def test_a_receipt_carries_id_and_epoch(message_id: int, epoch: int) -> None:
    assert unseal(seal(message_id, epoch)) == (message_id, epoch)


@pytest.mark.parametrize(
    "receipt", ["", "x", "AAAA", "ä" * 16, "A" * 15, "A" * 17, "A" * 4096, "AAAAABAAAAAAAA==", "\0" * 16]
)
def test_what_we_never_issued_names_nothing(receipt: str) -> None:
    assert unseal(receipt) is None


@given(st.text())
def test_no_text_makes_it_fail(receipt: str) -> None:
    unseal(receipt)
