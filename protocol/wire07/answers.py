"""Answers of Kafka 0.7 to bytes, without the int32 length in front. Pure.

FETCH: int16 error, message set. MULTIFETCH: int16 error, then for each part in the order of the
request an int32 length and an answer to FETCH. OFFSETS: int16 error, int32 count, int64 offsets.
PRODUCE and MULTIPRODUCE are not answered.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ports import Buffer

_ERROR = struct.Struct(">h")
_LENGTH = struct.Struct(">i")


class Error07(IntEnum):
    """Error codes of 0.7."""

    UNKNOWN = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    INVALID_MESSAGE = 2
    WRONG_PARTITION = 3
    INVALID_FETCH_SIZE = 4


_BY_CODE = {
    ErrorCode.NONE: Error07.NONE,
    ErrorCode.OFFSET_OUT_OF_RANGE: Error07.OFFSET_OUT_OF_RANGE,
    ErrorCode.CORRUPT_MESSAGE: Error07.INVALID_MESSAGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Error07.WRONG_PARTITION,
    ErrorCode.INVALID_TOPIC_EXCEPTION: Error07.WRONG_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE: Error07.WRONG_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Error07.WRONG_PARTITION,
    ErrorCode.INVALID_FETCH_SIZE: Error07.INVALID_FETCH_SIZE,
}


def error_of(code: int) -> Error07:
    """What 0.7 says for an error of today; UNKNOWN for what it has no number for."""
    return _BY_CODE.get(ErrorCode(code), Error07.UNKNOWN)


class Fetched07(NamedTuple):
    """What is answered for one partition."""

    error: Error07
    messages: Buffer = b""


def encode_fetched(one: Fetched07) -> bytes:
    """The answer to FETCH (NET-29)."""
    return _ERROR.pack(one.error) + one.messages


def encode_many_fetched(parts: Sequence[Fetched07]) -> bytes:
    """The answer to MULTIFETCH; each part says its own error (NET-30)."""
    out = bytearray(_ERROR.pack(Error07.NONE))
    for one in parts:
        out += _LENGTH.pack(_ERROR.size + len(one.messages))
        out += _ERROR.pack(one.error)
        out += one.messages
    return bytes(out)


def encode_offsets(error: Error07, offsets: Sequence[int] = ()) -> bytes:
    """The answer to OFFSETS."""
    return struct.pack(f">hi{len(offsets)}q", error, len(offsets), *offsets)
