"""The hashes that the archive compares by, beside PostgreSQL's own."""

import os
import random

import numpy as np
import psycopg
import pyarrow as pa
import pytest

from mqueue.core.conf import Conf
from pipeline import lookup3

NUMBERS = [0, 1, -1, 5, 2**31 - 1, -(2**31), 2**31, 2**40 + 7, -(2**40) - 3, 2**63 - 1, -(2**63)]


@pytest.fixture
def postgres(configuration: Conf) -> "psycopg.Connection[tuple[int]]":
    return psycopg.connect(configuration.shard_urls[0])


def theirs(postgres: "psycopg.Connection[tuple[int]]", expression: str, kind: str, values: list[object]) -> list[int]:
    query = f"SELECT {expression} FROM unnest(%s::{kind}[]) WITH ORDINALITY AS v (v, place) ORDER BY place"
    with postgres:
        return [row[0] for row in postgres.execute(query, [values]).fetchall()]


def ours(hashes: lookup3.Hashes) -> list[int]:
    return hashes.view(np.int64).tolist()


def test_numbers(postgres: "psycopg.Connection[tuple[int]]") -> None:
    assert ours(lookup3.of_numbers(np.array(NUMBERS))) == theirs(
        postgres, "hashint8extended(v, 0)", "bigint", [*NUMBERS]
    )


def test_numbers_with_seeds(postgres: "psycopg.Connection[tuple[int]]") -> None:
    seeds = np.array(NUMBERS[1:])
    assert ours(lookup3.of_numbers(seeds, seeds)) == theirs(postgres, "hashint8extended(v, v)", "bigint", NUMBERS[1:])


@pytest.mark.parametrize("band", [3, 8_192])
def test_texts(postgres: "psycopg.Connection[tuple[int]]", monkeypatch: pytest.MonkeyPatch, band: int) -> None:
    """Of every length modulo a block, with what is longer than a byte, and slices."""
    monkeypatch.setattr(lookup3, "BAND", band)
    some = random.Random(1)
    texts = [None, "", "x" * 5_000, *("".join(some.choices("aé€\u4e00 \x01", k=length)) for length in range(200)), None]
    some.shuffle(texts)
    expected = [found or 0 for found in theirs(postgres, "hashtextextended(v, 0)", "text", [*texts])]
    assert ours(lookup3.of_texts(pa.array(texts, pa.string()))) == expected
    assert ours(lookup3.of_texts(pa.array(["before", *texts, "after"])[1:-1])) == expected


def test_bytes(postgres: "psycopg.Connection[tuple[int]]", monkeypatch: pytest.MonkeyPatch) -> None:
    """Any of them, also those that are no text; and long ones a few at a time."""
    monkeypatch.setattr(lookup3, "BAND_BYTES", 1_000)
    values = [os.urandom(length) for length in (0, 1, 3, 4, 11, 12, 13, 24, 400, 2_000, 2_000)] + [b"\0" * 7]
    expected = theirs(postgres, "hash_record_extended(ROW(v), 0)", "bytea", [*values])
    assert ours(lookup3.of_texts(pa.array(values, pa.binary()))) == expected


def test_rows(postgres: "psycopg.Connection[tuple[int]]") -> None:
    """In the order of their columns; null counts for nothing."""
    row = "hash_record_extended(ROW(v, null::text, v::text, v::smallint), 0)"
    values = [0, 1, -7, 300]
    texts = lookup3.of_texts(pa.array([str(value) for value in values]))
    numbers = lookup3.of_numbers(np.array(values))
    found = lookup3.of_rows([numbers, np.zeros(len(values), np.uint64), texts, numbers])
    assert ours(found) == theirs(postgres, row, "bigint", [*values])


def test_nothing() -> None:
    assert len(lookup3.of_texts(pa.array([], pa.string()))) == 0
    assert lookup3.of_texts(pa.array([None, None], pa.string())).tolist() == [0, 0]
