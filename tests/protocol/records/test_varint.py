"""Zigzag varints (FMT-27)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.varint import (
    INT64_MAX,
    INT64_MIN,
    SHORT_COUNT,
    ZIGZAG,
    decode_varint,
    encode_varint,
)
from tests.protocol.records.samples import code_of, quick


@pytest.mark.requirement("FMT-27")
@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (-2, "03"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (300, "d804"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (INT64_MAX, "feffffffffffffffff01"),
        (INT64_MIN, "ffffffffffffffffff01"),
    ],
)
def test_known_encodings(value: int, encoded: str) -> None:
    """The vectors of the protocol buffers encoding, which Kafka took over (KIP-98)."""
    assert encode_varint(value).hex() == encoded
    assert decode_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@quick
@given(value=st.integers(INT64_MIN, INT64_MAX), before=st.binary(max_size=3))
def test_round_trip(value: int, before: bytes) -> None:
    """Every signed 64-bit value, at any place of a buffer."""
    data = before + encode_varint(value) + b"\xff"

    assert decode_varint(data, len(before)) == (value, len(data) - 1)


def test_tables_and_loops_agree() -> None:
    """The tables are made by other arithmetic, and end somewhere."""
    for value in range(SHORT_COUNT + 2):
        assert decode_varint(encode_varint(value), 0)[0] == value
    for raw, value in enumerate(ZIGZAG):
        low, high = raw & 0x7F, raw >> 7
        data = bytes((low | 0x80, high)) if high else bytes((low,))
        assert decode_varint(data, 0) == (value, len(data))


@pytest.mark.parametrize("data", [b"\x80" * 10 + b"\x00", b"\xff" * 30, b"\xff" * 9 + b"\x02"])
def test_more_than_64_bits_are_corrupt(data: bytes) -> None:
    """An endless varint would grow an integer for as long as the peer likes."""
    with pytest.raises(KafkaError) as raised:
        decode_varint(data, 0)

    assert code_of(raised.value) is ErrorCode.CORRUPT_MESSAGE


def test_overlong_forms_are_read() -> None:
    """Java's reader takes 1 in two bytes; a batch holding one must stay readable."""
    assert decode_varint(b"\x82\x00", 0) == (1, 2)


def test_a_varint_cut_short_is_an_index_error() -> None:
    """Record code turns this into its own error; nothing may be read beyond the buffer."""
    with pytest.raises(IndexError):
        decode_varint(b"\x80\x80", 0)
