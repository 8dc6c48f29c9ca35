"""The produce request that nearly every producer sends, read and answered without making objects.

One topic, one partition, no transaction, versions 7 to 13. Whatever differs in a single byte from
what is expected here is left to the compiled codec: ``read_produce`` then answers None, and never
says that something is wrong. A test holds the two against each other. The functions here are also
the reference of their twins in compiled_straight.pyx, which are taken where they were built and the
environment does not say ``OTTLA_PURE=1``. HOT.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.primitives import read_long_uvarint
from ottla.protocol.records.preference import compiled_twin, of_version

if TYPE_CHECKING:
    from collections.abc import Callable

PRODUCE_VERSIONS = range(7, 14)
_FLEXIBLE_FROM = 9
_TOPIC_ID_FROM = 13
_ERRORS_FROM = 8
# Behind the client id: transactional id, acks, timeout, number of topics, length of the name.
_CLASSIC_START = struct.Struct(">hhiih").unpack_from
_COMPACT_START = struct.Struct(">BBhiBB").unpack_from
# The same with topic ids: the last field is the number of topics.
_ID_START = struct.Struct(">BBhiB").unpack_from
_ID_START_BYTES = 9
_ID_BYTES = 16
# Behind the name: number of partitions, index, length of the records (its first byte).
_CLASSIC_PARTITION = struct.Struct(">iii").unpack_from
_COMPACT_PARTITION = struct.Struct(">BiB").unpack_from
# Empty tag sections of partition, topic and request.
_NO_TAGS = struct.Struct(">BH").unpack_from

SingleProduce = tuple[int, Any, int, memoryview, bytes, int]
"""acks, topic (its name, from version 13 on its id), partition index, records, the topic as an
answer spells it again, and timeout in ms."""


COMPILED_NAME = "ottla.protocol.records.compiled_straight"
COMPILED: Any = compiled_twin(COMPILED_NAME, "read_produce_by_id", "fetch_answer_classic")
"""The compiled twin of this module and of straight_fetch.py, or None."""


def produce_reader(
    version: int, twin: Any = COMPILED
) -> Callable[[memoryview, int], SingleProduce | None]:
    """What reads a whole frame of that version, given where its header's client id ends."""
    assert version in PRODUCE_VERSIONS
    forms = (
        (_TOPIC_ID_FROM, "read_produce_by_id", _read_by_id),
        (_FLEXIBLE_FROM, "read_produce_compact", _read_compact),
        (0, "read_produce_classic", _read_classic),
    )
    read: Callable[[memoryview, int], SingleProduce | None] = of_version(version, twin, forms)
    return read


def _read_by_id(frame: memoryview, position: int) -> SingleProduce | None:
    try:
        tags, transactional_id, acks, timeout_ms, topics = _ID_START(frame, position)
        topic = position + _ID_START_BYTES
        partitions = topic + _ID_BYTES
        count, index, length = _COMPACT_PARTITION(frame, partitions)
        if tags or transactional_id or topics != 2 or count != 2:
            return None
        start = partitions + 6
        if length > 127:
            length, start = read_long_uvarint(frame, start, length)
        end = start + length - 1
        if not length or _NO_TAGS(frame, end) != (0, 0) or len(frame) != end + 3:
            return None
    except (struct.error, IndexError, ValueError, RemoteProtocolError):
        return None
    topic_id, named = bytes(frame[topic:partitions]), bytes(frame[topic - 1 : partitions + 1])
    return acks, topic_id, index, frame[start:end], named, timeout_ms


def _read_compact(frame: memoryview, position: int) -> SingleProduce | None:
    try:
        tags, transactional_id, acks, timeout_ms, topics, size = _COMPACT_START(frame, position)
        # Lengths and counts are one more than what they count.
        name = position + 10
        partitions = name + size - 1
        count, index, length = _COMPACT_PARTITION(frame, partitions)
        if tags or transactional_id or topics != 2 or not 0 < size < 128 or count != 2:
            return None
        start = partitions + 6
        if length > 127:
            length, start = read_long_uvarint(frame, start, length)
        end = start + length - 1
        if not length or _NO_TAGS(frame, end) != (0, 0) or len(frame) != end + 3:
            return None
        topic = str(frame[name:partitions], "utf-8")
    except (struct.error, IndexError, ValueError, RemoteProtocolError):
        return None
    named = bytes(frame[name - 2 : partitions + 1])
    return acks, topic, index, frame[start:end], named, timeout_ms


def _read_classic(frame: memoryview, position: int) -> SingleProduce | None:
    try:
        transactional_id, acks, timeout_ms, topics, size = _CLASSIC_START(frame, position)
        name = position + 14
        partitions = name + size
        count, index, length = _CLASSIC_PARTITION(frame, partitions)
        start = partitions + 12
        if transactional_id != -1 or topics != 1 or size < 0 or count != 1:
            return None
        if length < 0 or len(frame) != start + length:
            return None
        topic = str(frame[name:partitions], "utf-8")
    except (struct.error, UnicodeDecodeError):
        return None
    return acks, topic, index, frame[start:], bytes(frame[name - 6 : partitions + 4]), timeout_ms


def produce_answer(
    version: int, twin: Any = COMPILED
) -> Callable[[int, bytes, int, int, int], bytes]:
    """What makes the whole answer, header included, to a batch that was appended.

    It takes correlation id, topic (as it was read), partition index, base offset and log start
    offset; the time of a batch that keeps its producer's times is -1."""
    assert version in PRODUCE_VERSIONS
    made: Callable[[int, bytes, int, int, int], bytes]
    if twin:
        if version >= _FLEXIBLE_FROM:
            made = twin.produce_answer_compact
        else:
            has_errors = version >= _ERRORS_FROM
            made = twin.produce_answer_errors if has_errors else twin.produce_answer_classic
        return made
    if version >= _FLEXIBLE_FROM:
        head, rest = struct.Struct(">ix").pack, b"\x01" + bytes(8)
    else:
        head, rest = struct.Struct(">i").pack, bytes(4)
        if version >= _ERRORS_FROM:
            rest = bytes(4) + b"\xff\xff" + rest
    body, join = struct.Struct(">ihqqq").pack, b"".join

    def answer(
        correlation_id: int, topic: bytes, index: int, base_offset: int, log_start_offset: int
    ) -> bytes:
        appended = body(index, 0, base_offset, -1, log_start_offset)
        return join((head(correlation_id), topic, appended, rest))

    return answer
