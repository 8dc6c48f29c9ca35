"""Messages of 0.7 are read and written byte for byte as its documents have them."""

from __future__ import annotations

import contextlib
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.compression import Codec
from ottla.protocol.wire07.messages import (
    decode_payloads,
    decode_set,
    encode_compressed,
    encode_message,
)
from tests.protocol.wire07.client_07 import gzipped_07, message_07

# CRC-32 of b"abc" is 0x352441c2.
PLAIN = bytes.fromhex("00000008 00 352441c2 616263")
WITH_ATTRIBUTES = bytes.fromhex("00000009 01 00 352441c2 616263")


def _refusal(data: bytes) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        decode_payloads(data, 1 << 20)
    return caught.value.code


@pytest.mark.requirement("FMT-01", "FMT-03")
def test_a_message_of_magic_0_is_length_magic_checksum_and_payload() -> None:
    """The length counts one byte of magic, four of checksum and the payload."""
    assert encode_message(b"abc") == PLAIN
    (found,) = decode_set(PLAIN)
    assert (found.magic, found.attributes, found.crc) == (0, 0, 0x352441C2)
    assert bytes(found.payload) == b"abc"
    for bit in range(8 * 3):
        flipped = bytearray(PLAIN)
        flipped[9 + bit // 8] ^= 1 << bit % 8
        assert _refusal(bytes(flipped)) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.requirement("FMT-02")
def test_a_message_of_magic_1_has_attributes_with_the_codec() -> None:
    """The payload of a compressed message is a message set."""
    assert encode_message(b"abc", Codec.NONE) == WITH_ATTRIBUTES
    (found,) = decode_set(WITH_ATTRIBUTES)
    assert (found.magic, found.codec, bytes(found.payload)) == (1, Codec.NONE, b"abc")
    for number, codec in ((1, Codec.GZIP), (2, Codec.SNAPPY)):
        data = encode_compressed([b"abc", b""], codec)
        assert data[4:6] == bytes([1, number])
        (message,) = decode_set(data)
        assert message.codec is codec
        payloads, seen = decode_payloads(data)
        assert ([bytes(one) for one in payloads], seen) == ([b"abc", b""], codec)
    wrapped = encode_compressed([b"abc", b""], Codec.GZIP)
    assert gzip.decompress(wrapped[10:]) == PLAIN + bytes.fromhex("00000005 00 00000000")


@pytest.mark.requirement("FMT-01", "FMT-02", "FMT-03")
@given(st.lists(st.tuples(st.binary(max_size=200), st.sampled_from([0, 1])), max_size=20))
def test_what_is_written_is_read_again(made: list[tuple[bytes, int]]) -> None:
    """Against an encoder that shares no code: entries back to back, nothing between them."""
    data = b"".join(encode_message(one, Codec.NONE if magic else None) for one, magic in made)

    assert data == b"".join(message_07(one, magic) for one, magic in made)
    found = [(bytes(one.payload), one.magic) for one in decode_set(data)]
    assert found == made


def test_messages_inside_and_beside_a_compressed_one_keep_their_order() -> None:
    """A producer of 0.7 may send both kinds in one set."""
    data = message_07(b"a") + gzipped_07(b"b", b"c") + message_07(b"d", 1)

    payloads, codec = decode_payloads(data)

    assert [bytes(one) for one in payloads] == [b"a", b"b", b"c", b"d"]
    assert codec is Codec.GZIP


@pytest.mark.parametrize("cut", range(len(PLAIN)))
def test_a_message_that_is_cut_off_is_left_out(cut: int) -> None:
    """A byte limit cuts the last message anywhere, which is no error."""
    payloads, _codec = decode_payloads(WITH_ATTRIBUTES + PLAIN[:cut])

    assert [bytes(one) for one in payloads] == [b"abc"]


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("00000004 00 352441"),
        bytes.fromhex("ffffffff 00 352441c2"),
        bytes.fromhex("00000005 01 00 352441"),
        bytes.fromhex("00000008 02 352441c2 616263"),
        message_07(b"abc", 1, 3),
        message_07(b"abc", 1, 4),
        message_07(b"no gzip", 1, 1),
        message_07(gzip.compress(gzipped_07(b"a")), 1, 1),
    ],
)
def test_what_0_7_does_not_have_is_corrupt(data: bytes) -> None:
    """Sizes, magics, codecs and nesting that no client of that time wrote."""
    assert _refusal(data) is ErrorCode.CORRUPT_MESSAGE


def test_a_small_set_cannot_fill_the_memory() -> None:
    """The limit holds for all compressed messages of a set together."""
    part = gzipped_07(bytes(600_000))

    assert len(decode_payloads(part, 1 << 20).payloads) == 1
    assert _refusal(part + part) is ErrorCode.MESSAGE_TOO_LARGE


@given(st.binary(max_size=100))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    """The listener answers KafkaError; any other error is a bug."""
    with contextlib.suppress(KafkaError):
        decode_payloads(data, 1 << 16)
