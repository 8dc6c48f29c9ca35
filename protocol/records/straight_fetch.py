"""The fetch request that nearly every consumer sends, read and answered without making objects.

One partition, in full, without a session and without a claim about the last record, versions 11
to 18; see straight.py, whose rules hold here too. HOT.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from ottla.protocol.primitives import write_uvarint
from ottla.protocol.records.preference import of_version
from ottla.protocol.records.straight import COMPILED

if TYPE_CHECKING:
    from collections.abc import Callable

FETCH_VERSIONS = range(11, 19)
_FLEXIBLE_FROM = 12
_TOPIC_ID_FROM = 13
# The replica is a tag at the end then, which a consumer does not send.
_REPLICA_TAG_FROM = 15
_CONSUMER = -1
_UNKNOWN_EPOCH = -1
# Of a session: these two are of requests without one.
_FINAL_EPOCH, _INITIAL_EPOCH = -1, 0
# Behind the client id: (tags,) replica, wait, least and most bytes, isolation, session, its epoch,
# number of topics, length of the name.
_CLASSIC_START = struct.Struct(">iiiibiiih").unpack_from
_COMPACT_START = struct.Struct(">BiiiibiiBB").unpack_from
# The same with topic ids: the last field is the number of topics.
_ID_START = struct.Struct(">BiiiibiiB").unpack_from
_ID_START_BYTES = 27
_TAGGED_START = struct.Struct(">BiiibiiB").unpack_from
_TAGGED_START_BYTES = 23
_ID_BYTES = 16
# Behind the name or id: number of partitions, index, leader epoch, offset, (last fetched epoch,)
# log start, most bytes, (tags of partition and topic,) forgotten topics, length of the rack.
_CLASSIC_PARTITION = struct.Struct(">iiiqqiih").unpack_from
_COMPACT_PARTITION = struct.Struct(">BiiqiqiHBB").unpack_from
# Varints of those lengths.
_TWO_BYTES = struct.Struct(">BB").pack
_THREE_BYTES = struct.Struct(">BBB").pack

SingleFetch = tuple[int, int, int, int, Any, int, int, int, bool, bytes]
"""Wait in ms, least and most bytes, isolation level, topic (its name, from version 13 on its id),
partition index, leader epoch or -1, offset, whether the consumer says where it stands, and the
topic as an answer spells it again."""

FetchedOffsets = tuple[int, int, int, bool]
"""High watermark, last stable offset, log start offset, and whether the client reads only what is
committed: it is then told that no transaction was aborted here."""


def fetch_reader(
    version: int, twin: Any = COMPILED
) -> Callable[[memoryview, int], SingleFetch | None]:
    """What reads a whole frame of that version, given where its header's client id ends."""
    assert version in FETCH_VERSIONS
    forms = (
        (_REPLICA_TAG_FROM, "read_fetch_tagged", _read_tagged),
        (_TOPIC_ID_FROM, "read_fetch_id", _read_id),
        (_FLEXIBLE_FROM, "read_fetch_compact", _read_compact),
        (0, "read_fetch_classic", _read_classic),
    )
    read: Callable[[memoryview, int], SingleFetch | None] = of_version(version, twin, forms)
    return read


def _read_tagged(frame: memoryview, position: int) -> SingleFetch | None:
    try:
        tags, wait_ms, least, most, isolation, session, epoch, topics = _TAGGED_START(
            frame, position
        )
    except struct.error:
        return None
    if tags or topics != 2 or session or not _FINAL_EPOCH <= epoch <= _INITIAL_EPOCH:
        return None
    return _read_by_id(frame, position + _TAGGED_START_BYTES, (wait_ms, least, most, isolation))


def _read_id(frame: memoryview, position: int) -> SingleFetch | None:
    try:
        tags, replica, wait_ms, least, most, isolation, session, epoch, topics = _ID_START(
            frame, position
        )
    except struct.error:
        return None
    if tags or topics != 2 or replica != _CONSUMER:
        return None
    if session or not _FINAL_EPOCH <= epoch <= _INITIAL_EPOCH:
        return None
    return _read_by_id(frame, position + _ID_START_BYTES, (wait_ms, least, most, isolation))


def _read_by_id(
    frame: memoryview, position: int, limits: tuple[int, int, int, int]
) -> SingleFetch | None:
    """The one partition, its topic named by the id that stands at the position."""
    partitions = position + _ID_BYTES
    try:
        count, index, leader_epoch, offset, last_epoch, _, limit, no_tags, forgotten, rack = (
            _COMPACT_PARTITION(frame, partitions)
        )
    except struct.error:
        return None
    if count != 2 or no_tags or forgotten != 1 or last_epoch != _UNKNOWN_EPOCH:
        return None
    # The rack, and the tags of the request.
    if not 0 < rack < 128 or len(frame) != partitions + 37 + rack or frame[-1]:
        return None
    wait_ms, least, most, isolation = limits
    topic_id = bytes(frame[position:partitions])
    named = bytes(frame[position - 1 : partitions + 1])
    most, has_rack = min(most, limit), rack > 1
    return (
        wait_ms,
        least,
        most,
        isolation,
        topic_id,
        index,
        leader_epoch,
        offset,
        has_rack,
        named,
    )


def _read_compact(frame: memoryview, position: int) -> SingleFetch | None:
    try:
        tags, replica, wait_ms, least, most, isolation, session, epoch, topics, size = (
            _COMPACT_START(frame, position)
        )
        name = position + 28
        partitions = name + size - 1
        count, index, leader_epoch, offset, last_epoch, _, limit, no_tags, forgotten, rack = (
            _COMPACT_PARTITION(frame, partitions)
        )
        if tags or topics != 2 or not 0 < size < 128 or count != 2 or no_tags or forgotten != 1:
            return None
        # The rack, and the tags of the request.
        if not 0 < rack < 128 or len(frame) != partitions + 37 + rack or frame[-1]:
            return None
        if replica != _CONSUMER or session or last_epoch != _UNKNOWN_EPOCH:
            return None
        if not _FINAL_EPOCH <= epoch <= _INITIAL_EPOCH:
            return None
        topic = str(frame[name:partitions], "utf-8")
    except (struct.error, UnicodeDecodeError):
        return None
    most, named = min(most, limit), bytes(frame[name - 2 : partitions + 1])
    return wait_ms, least, most, isolation, topic, index, leader_epoch, offset, rack > 1, named


def _read_classic(frame: memoryview, position: int) -> SingleFetch | None:
    try:
        replica, wait_ms, least, most, isolation, session, epoch, topics, size = _CLASSIC_START(
            frame, position
        )
        name = position + 31
        partitions = name + size
        count, index, leader_epoch, offset, _, limit, forgotten, rack = _CLASSIC_PARTITION(
            frame, partitions
        )
        if topics != 1 or size < 0 or count != 1 or forgotten:
            return None
        if rack < 0 or len(frame) != partitions + 38 + rack:
            return None
        if replica != _CONSUMER or session or not _FINAL_EPOCH <= epoch <= _INITIAL_EPOCH:
            return None
        topic = str(frame[name:partitions], "utf-8")
    except (struct.error, UnicodeDecodeError):
        return None
    most, named = min(most, limit), bytes(frame[name - 6 : partitions + 4])
    return wait_ms, least, most, isolation, topic, index, leader_epoch, offset, rack > 0, named


def fetch_answer(
    version: int, twin: Any = COMPILED
) -> Callable[[int, bytes, int, FetchedOffsets, int], bytes]:
    """What makes the answer up to the records, header included.

    It takes correlation id, topic (as it was read), partition index, offsets and the records'
    size. Behind the records comes ``answer_end(version)``."""
    assert version in FETCH_VERSIONS
    if twin:
        made: Callable[[int, bytes, int, FetchedOffsets, int], bytes]
        is_flexible = version >= _FLEXIBLE_FROM
        made = twin.fetch_answer_compact if is_flexible else twin.fetch_answer_classic
        return made
    size_of: Callable[[int], bytes]
    if version >= _FLEXIBLE_FROM:
        # Tags, throttle time, error, session.
        head, body = struct.Struct(">i11x").pack, struct.Struct(">ihqqqBi").pack
        null, empty, size_of = 0, 1, _compact_size
    else:
        head, body = struct.Struct(">i10x").pack, struct.Struct(">ihqqqii").pack
        null, empty, size_of = -1, 0, struct.Struct(">i").pack
    join = b"".join

    def answer(
        correlation_id: int, named: bytes, index: int, offsets: FetchedOffsets, size_bytes: int
    ) -> bytes:
        high_watermark, stable_offset, start_offset, read_committed = offsets
        aborted = empty if read_committed else null
        read = body(index, 0, high_watermark, stable_offset, start_offset, aborted, -1)
        return join((head(correlation_id), named, read, size_of(size_bytes)))

    return answer


def _compact_size(size_bytes: int) -> bytes:
    """One more than the size as a varint; two or three bytes for nearly all fetches."""
    size = size_bytes + 1
    if 0x80 <= size < 0x4000:
        return _TWO_BYTES(size & 0x7F | 0x80, size >> 7)
    if 0x4000 <= size < 0x200000:
        return _THREE_BYTES(size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14)
    out = bytearray()
    write_uvarint(out, size)
    return bytes(out)


def answer_end(version: int) -> bytes:
    """What follows the records: empty tag sections of partition, topic and answer."""
    return bytes(3) if version >= _FLEXIBLE_FROM else b""
