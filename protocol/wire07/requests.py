"""Requests of Kafka 0.7 from bytes, without the int32 length in front. Pure.

A request is: int16 kind, then as of 0.7. Strings have an int16 length, message sets an int32 one;
there is no version, no correlation id and no client id:

    PRODUCE 0       topic, int32 partition, message set
    FETCH 1         topic, int32 partition, int64 offset, int32 bytes at most
    MULTIFETCH 2    int16 count, as many as that of FETCH
    MULTIPRODUCE 3  int16 count, as many as that of PRODUCE
    OFFSETS 4       topic, int32 partition, int64 time, int32 count at most
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    P = TypeVar("P")

_INT16 = struct.Struct(">h")
_PLACE = struct.Struct(">ii")
_FETCH = struct.Struct(">iqi")
# The partition of a produce request that leaves the choice to the broker.
ANY_PARTITION = -1


class Kind07(IntEnum):
    """Request keys of 0.7."""

    PRODUCE = 0
    FETCH = 1
    MULTIFETCH = 2
    MULTIPRODUCE = 3
    OFFSETS = 4


class Produce07(NamedTuple):
    """Messages for one partition; ``ANY_PARTITION``: the broker chooses."""

    topic: str
    partition: int
    messages: memoryview


class Fetch07(NamedTuple):
    """Messages of one partition are wanted, from a position on."""

    topic: str
    partition: int
    offset: int
    max_bytes: int


class Offsets07(NamedTuple):
    """Offsets before a time are wanted: milliseconds, -1 for the latest, -2 for the earliest."""

    topic: str
    partition: int
    time: int
    count_max: int


class Request07(NamedTuple):
    """One request; those that are not multiple have one part."""

    kind: Kind07
    parts: list[Produce07] | list[Fetch07] | list[Offsets07]


def decode_request(frame: memoryview) -> Request07:
    """The request in a frame. Raises RemoteProtocolError for what 0.7 does not have."""
    try:
        return _decode(frame)
    except struct.error:
        raise RemoteProtocolError("a request of 0.7 ends too early") from None


def _decode(frame: memoryview) -> Request07:
    (number,) = _INT16.unpack_from(frame)
    if number not in Kind07.__members__.values():
        raise RemoteProtocolError(f"0.7 has no request {number}; a later client needs another port")
    kind = Kind07(number)
    position = _INT16.size
    count = 1
    if kind in (Kind07.MULTIFETCH, Kind07.MULTIPRODUCE):
        (count,) = _INT16.unpack_from(frame, position)
        position += _INT16.size
        if count < 0:
            raise RemoteProtocolError(f"a request of 0.7 announces {count} parts")
    if kind in (Kind07.PRODUCE, Kind07.MULTIPRODUCE):
        return Request07(kind, _parts(frame, position, count, _produce))
    if kind is Kind07.OFFSETS:
        return Request07(kind, _parts(frame, position, count, _offsets))
    return Request07(kind, _parts(frame, position, count, _fetch))


def _parts(
    frame: memoryview,
    position: int,
    count: int,
    decode: Callable[[memoryview, int], tuple[P, int]],
) -> list[P]:
    parts = []
    for _ in range(count):
        part, position = decode(frame, position)
        parts.append(part)
    if position != len(frame):
        raise RemoteProtocolError(f"{len(frame) - position} bytes follow a request of 0.7")
    return parts


def _produce(frame: memoryview, position: int) -> tuple[Produce07, int]:
    topic, position = _topic(frame, position)
    partition, size = _PLACE.unpack_from(frame, position)
    position += _PLACE.size
    if not 0 <= size <= len(frame) - position:
        raise RemoteProtocolError(f"a message set of 0.7 gives its size as {size} bytes")
    return Produce07(topic, partition, frame[position : position + size]), position + size


def _fetch(frame: memoryview, position: int) -> tuple[Fetch07, int]:
    topic, position = _topic(frame, position)
    return Fetch07(topic, *_FETCH.unpack_from(frame, position)), position + _FETCH.size


def _offsets(frame: memoryview, position: int) -> tuple[Offsets07, int]:
    topic, position = _topic(frame, position)
    return Offsets07(topic, *_FETCH.unpack_from(frame, position)), position + _FETCH.size


def _topic(frame: memoryview, position: int) -> tuple[str, int]:
    (size,) = _INT16.unpack_from(frame, position)
    position += _INT16.size
    if not 0 <= size <= len(frame) - position:
        raise RemoteProtocolError(f"a topic of 0.7 gives its size as {size} bytes")
    try:
        return str(frame[position : position + size], "utf-8"), position + size
    except UnicodeDecodeError:
        raise RemoteProtocolError("the name of a topic is not UTF-8") from None
