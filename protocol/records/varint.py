"""Zigzag varints of records: the signed variable-length integers of protocol buffers.

Record code handles one and two byte forms in line and calls these for the rest; a varint of more
than 10 bytes, or a value beyond 64 bits, is malformed.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.protocol.ports import Buffer

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_VARLONG_BITS_MAX = 63


def _encode_slowly(value: int) -> bytes:
    assert INT64_MIN <= value <= INT64_MAX, value
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


SHORT_COUNT = 4096
# Lengths and deltas are nearly always small: a tuple look-up is ten times as fast as a loop.
SHORT_VARINTS = (
    *(bytes((value << 1,)) for value in range(64)),
    *(bytes((value << 1 & 0x7F | 0x80, value >> 6)) for value in range(64, SHORT_COUNT)),
)
# The signed value of every one and two byte varint, by its unsigned payload: 0, -1, 1, -2, ...
ZIGZAG = tuple(chain.from_iterable(zip(range(1 << 13), range(-1, -(1 << 13) - 1, -1), strict=True)))


def encode_varint(value: int) -> bytes:
    """The zigzag varint of a signed 64-bit value: -1 is 01, 1 is 02, 300 is d8 04."""
    return SHORT_VARINTS[value] if 0 <= value < SHORT_COUNT else _encode_slowly(value)


def decode_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The signed value at a position, and the position after it.

    Raises KafkaError(CORRUPT_MESSAGE) for more than 64 bits, IndexError at the buffer's end."""
    raw = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > _VARLONG_BITS_MAX:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a varint is longer than 10 bytes")
    if raw >> 64:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a varint holds more than 64 bits")
    return (raw >> 1) ^ -(raw & 1), position
