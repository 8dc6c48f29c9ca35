"""The slow paths of the codecs: long varints, long strings, unknown tags."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.primitives import (
    SHORT_STRING,
    STRING_BYTES_MAX,
    read_long_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_string_size,
    write_uvarint,
)

UINT32_MAX = 0xFFFFFFFF


def _uvarint(value: int) -> bytes:
    out = bytearray()
    write_uvarint(out, value)
    return bytes(out)


@given(value=st.integers(0, UINT32_MAX), after=st.binary(max_size=3))
def test_a_varint_is_read_as_it_was_written(value: int, after: bytes) -> None:
    """Lengths and tags of every flexible version are written in this form."""
    encoded = _uvarint(value)

    assert read_uvarint(encoded + after, 0) == (value, len(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16_383, "ff7f"),
        (16_384, "808001"),
        (UINT32_MAX, "ffffffff0f"),
    ],
)
def test_a_varint_puts_its_lowest_bits_first(value: int, encoded: str) -> None:
    """The other order would be just as self-consistent, and no client would understand it."""
    assert _uvarint(value) == bytes.fromhex(encoded)


@pytest.mark.parametrize("encoded", ["ffffffffff01", "ffffffff1f", "8080808080", "ffffffff7f"])
def test_a_varint_of_more_than_32_bits_is_refused(encoded: str) -> None:
    """Every varint in the protocol is a 32-bit one; a longer one is an attack or a lost place."""
    with pytest.raises(RemoteProtocolError, match="varint"):
        read_uvarint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("size", [0, 1, 126])
def test_short_strings_are_found_by_their_length(size: int) -> None:
    """The table is indexed as compact strings count, by length plus one."""
    buffer = memoryview(b"__" + b"x" * size)

    assert SHORT_STRING[size + 1](buffer, 2) == (b"x" * size,)


def test_a_null_is_refused_where_a_string_is_required() -> None:
    """A compact length of zero means null."""
    with pytest.raises(RemoteProtocolError, match="null"):
        SHORT_STRING[0](b"\0", 0)


@pytest.mark.parametrize("text", ["ü" * 80, "x" * STRING_BYTES_MAX])
def test_long_strings_are_read_whole(text: str) -> None:
    """Their length takes more than one byte, the first of which the caller has read already."""
    body = text.encode()
    out = bytearray()
    write_string_size(out, len(body))
    buffer = bytes(out) + body + b"after"

    assert read_long_string(buffer, 1, buffer[0]) == (text, len(buffer) - 5)


def test_a_string_over_the_limit_is_refused_on_both_sides() -> None:
    """Kafka's own codec refuses it, in compact form too."""
    size = STRING_BYTES_MAX + 1
    buffer = _uvarint(size + 1) + bytes(size)

    with pytest.raises(RemoteProtocolError, match="a string of 32768 bytes"):
        read_long_string(buffer, 1, buffer[0])
    with pytest.raises(ValueError, match="a string of 32768 bytes"):
        write_string_size(bytearray(), size)


@pytest.mark.parametrize("size", [-2, 5])
def test_a_string_that_is_not_there_is_refused(size: int) -> None:
    """A slice beyond the end would silently be shorter."""
    with pytest.raises(RemoteProtocolError, match="a string of"):
        read_string(b"1234", 0, size)


def test_tags_are_passed_over_by_their_sizes() -> None:
    """What a later version added must not disturb this one."""
    tags = b"\x05\x02aa" + b"\x81\x01\x00" + b"\x07" + _uvarint(200) + bytes(200)

    assert skip_tags(tags + b"next", 0, 3) == len(tags)


def test_more_tags_than_one_byte_can_count_are_passed_over() -> None:
    """The count itself is a varint whose first byte the caller has read."""
    tags = b"".join(bytes([number, 0]) for number in range(100)) * 2
    encoded = _uvarint(200) + tags

    assert skip_tags(encoded, 1, encoded[0]) == len(encoded)


@pytest.mark.parametrize(
    ("encoded", "count"),
    [(b"\x00", 1), (b"\x01\x05abc", 1), (b"\x01\xff\xff\xff\xff\x0f", 1), (b"\x01\x00\x02", 2)],
    ids=["no size", "short body", "huge body", "missing tag"],
)
def test_tags_that_are_not_there_are_refused(encoded: bytes, count: int) -> None:
    """A flood of tags, or one that claims the rest of the world, costs nothing (hazard N-03)."""
    with pytest.raises((RemoteProtocolError, IndexError)):
        skip_tags(encoded, 0, count)
