"""PostgreSQL's 64-bit hashes of numbers, texts and whole rows, of whole columns at a time.

It is Bob Jenkins' lookup3, in the form that hash_record_extended() has used since PostgreSQL 14. PostgreSQL spreads
hash partitions by the same functions, so it cannot change them without losing rows; where one did all the same, sums
would differ and nothing would be published.
"""

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BAND = 8_192  # rows that are mixed at once: enough to be worth the calls, few enough to stay in the cache
BAND_BYTES = 16 << 20
BLOCK, WORDS = 12, 3  # bytes, and words of four bytes
START = 0x9E3779B9 + 3923095  # and the length on top

Hashes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"
Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Words: TypeAlias = "np.ndarray[Any, np.dtype[np.uint32]]"

SHIFTS = [np.array(bits, np.uint32) for bits in range(32)]  # as arrays: a number is converted at each use


def of_rows(columns: list[Hashes]) -> Hashes:
    """As hash_record_extended(row, 0), of what the columns' values come to; zero stands for null."""
    found = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        found *= np.uint64(31)
        found += column
    return found


def of_numbers(numbers: Numbers, seeds: "Numbers | None" = None) -> Hashes:
    """As hashint8extended(number, seed), of seeds other than zero; what fits into four bytes or two has the same as
    integer and smallint."""
    bits = numbers.view(np.uint64)
    low, high = bits.astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)
    low ^= np.where(numbers >= 0, high, ~high)
    a, b, c = _begin(np.full(len(low), 4, np.uint32))
    if seeds is not None:
        seeded = seeds.view(np.uint64)
        a += (seeded >> np.uint64(32)).astype(np.uint32)
        b += seeded.astype(np.uint32)
        _mix(a, b, c)
    a += low
    return _end(a, b, c)


def of_texts(column: pa.Array) -> Hashes:
    """As hashtextextended(text, 0), and the same of bytes. Zero for null."""
    found = np.zeros(len(column), np.uint64)
    lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.uint32)
    order = np.argsort(lengths, kind="stable")[::-1]  # longest first: those that have a block are always the first ones
    if column.null_count:
        order = order[column.is_valid().to_numpy(zero_copy_only=False)[order]]
    start = 0
    while start < len(order):
        rows = order[start : start + min(BAND, 1 + BAND_BYTES // (int(lengths[order[start]]) + BLOCK))]
        found[rows] = _of_band(column.take(pa.array(rows)), lengths[rows])
        start += len(rows)
    return found


def _of_band(texts: pa.Array, lengths: Words) -> Hashes:
    """Of some, in falling order of length."""
    full = lengths // BLOCK
    words = _padded(texts, (int(full[0]) + 1) * BLOCK)
    a, b, c = _begin(lengths)
    mixing = np.searchsorted(-full.astype(np.int64), -np.arange(1, int(full[0]) + 1), side="right")
    for block, rows in enumerate(mixing.tolist()):
        first, second, third = a[:rows], b[:rows], c[:rows]
        first += words[WORDS * block, :rows]
        second += words[WORDS * block + 1, :rows]
        third += words[WORDS * block + 2, :rows]
        _mix(first, second, third)
    rows, rest = np.arange(len(full)), full * WORDS
    a += words[rest, rows]
    b += words[rest + 1, rows]
    c += words[rest + 2, rows] << np.uint32(8)  # its lowest byte is the length's
    return _end(a, b, c)


def _padded(texts: pa.Array, width: int) -> Words:
    """Filled up with zeros: a row of the result for each four bytes, a column for each text."""
    as_ascii = pa.Array.from_buffers(pa.string(), len(texts), texts.buffers(), offset=texts.offset)
    data = pc.ascii_rpad(as_ascii, width, padding="\0").buffers()[2]
    words = np.frombuffer(data, "<u4", len(texts) * width // 4).reshape(len(texts), width // 4)
    return np.ascontiguousarray(words.T)


def _begin(lengths: Words) -> tuple[Words, Words, Words]:
    a = lengths + np.uint32(START & 0xFFFFFFFF)
    return a, a.copy(), a.copy()


def _mix(a: Words, b: Words, c: Words) -> None:
    turned, spare = np.empty_like(a), np.empty_like(a)
    for one, other, third, bits in (
        (a, c, b, 4),
        (b, a, c, 6),
        (c, b, a, 8),
        (a, c, b, 16),
        (b, a, c, 19),
        (c, b, a, 4),
    ):
        _turn(other, bits, turned, spare)
        np.subtract(one, other, one)
        np.bitwise_xor(one, turned, one)
        np.add(other, third, other)


def _end(a: Words, b: Words, c: Words) -> Hashes:
    turned, spare = np.empty_like(a), np.empty_like(a)
    for one, other, bits in ((c, b, 14), (a, c, 11), (b, a, 25), (c, b, 16), (a, c, 4), (b, a, 14), (c, b, 24)):
        _turn(other, bits, turned, spare)
        np.bitwise_xor(one, other, one)
        np.subtract(one, turned, one)
    return (b.astype(np.uint64) << np.uint64(32)) | c


def _turn(words: Words, bits: int, into: Words, spare: Words) -> None:
    np.left_shift(words, SHIFTS[bits], into)
    np.right_shift(words, SHIFTS[32 - bits], spare)
    np.bitwise_or(into, spare, into)
