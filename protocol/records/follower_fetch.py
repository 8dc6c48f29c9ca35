"""A follower's fetch that continues its session, written, read and answered without objects.

It names the partitions whose position has changed, and none that leaves the session. Versions 15
to 17 have one form: topics by their ids, the follower in a tag at the end. All other requests, and
answers with an error, are left to the declared messages of ``protocol/messages/fetch.py``; a test
holds the two against each other. Pure. HOT.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ottla.protocol.primitives import read_uvarint, write_uvarint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ids import Uuid
    from ottla.protocol.ports import Buffer, FileRegion

VERSIONS = range(15, 18)
# Tags of the header, wait, least and most bytes, isolation, session, its epoch, number of topics.
_HEAD = struct.Struct(">BiiibiiB")
_HEAD_BEHIND_TAGS = struct.Struct(">iiibiiB")
# Number of a topic's partitions, behind its id.
_ID_BYTES = 16
# Index, leader epoch, offset, last fetched epoch, log start, most bytes, tags.
_PARTITION = struct.Struct(">iiqiqiB")
# Forgotten topics, rack, then one tag: its number and size, broker, broker epoch, tags of these.
_TAIL = struct.Struct(">5siqB")
_NOTES = bytes((1, 1, 1, 1, 13))
_AFTER_NOTES = _TAIL.size - len(_NOTES)
# Of an answer: correlation id, tags, throttle time, error, session, number of topics.
_ANSWER = struct.Struct(">iBihiB")
# The same behind the header.
_BODY = struct.Struct(">ihiB")
# Index, error, high watermark, last stable offset, log start, no aborted transactions, no other
# replica to read from.
_READ = struct.Struct(">ihqqqBi")
_COUNT_MAX = 126

FollowerPosition = tuple[bytes, int, int, int, int, int, int]
"""Topic id, partition index, leader epoch, offset, last fetched epoch, log start, most bytes."""

FollowerRequest = tuple[int, int, int, int, int, int, int, list[FollowerPosition]]
"""Wait in ms, least and most bytes, session, its epoch, broker and its epoch, and the partitions
that have changed."""

PartitionAnswer = tuple[bytes, int, int, int, "Buffer"]
"""Topic id, partition index, high watermark, log start offset, and the records."""

_head, _partition, _tail = _HEAD.unpack_from, _PARTITION.unpack_from, _TAIL.unpack_from


def is_request(frame: memoryview) -> bool:
    """Whether a frame ends like a follower's; a consumer's may name thousands of partitions."""
    return frame[-_TAIL.size : -_AFTER_NOTES] == _NOTES


def read_request(frame: memoryview, position: int) -> FollowerRequest | None:
    """Read a whole frame, given where its header's client id ends; None if it has another form."""
    if not is_request(frame):
        return None
    asked: list[FollowerPosition] = []
    try:
        tags, wait_ms, least, most, isolation, session, epoch, topics = _head(frame, position)
        if tags or isolation or not 0 < topics < 128:
            return None
        position += 23
        for _ in range(topics - 1):
            topic_id = bytes(frame[position : position + _ID_BYTES])
            partitions = frame[position + _ID_BYTES]
            if not 0 < partitions < 128:
                return None
            position += _ID_BYTES + 1
            for _ in range(partitions - 1):
                *told, limit, tags = _partition(frame, position)
                if tags:
                    return None
                position += 33
                asked.append((topic_id, *told, limit))
            if frame[position]:
                return None
            position += 1
        _, node_id, broker_epoch, tags = _tail(frame, position)
    except (struct.error, IndexError):
        return None
    if tags or len(frame) != position + _TAIL.size:
        return None
    return wait_ms, least, most, session, epoch, node_id, broker_epoch, asked


def write_request(
    limits: tuple[int, int, int],
    session: tuple[int, int],
    broker: tuple[int, int],
    asked: Sequence[FollowerPosition],
) -> bytes | None:
    """Return the request behind its header; None if it names too many partitions for this form.

    The limits are the wait in ms, least and most bytes; a session and a broker are an id and its
    epoch. Adjacent partitions of a topic share its entry."""
    if len(asked) > _COUNT_MAX:
        return None
    topics: list[tuple[bytes, list[bytes]]] = []
    for topic_id, *told in asked:
        if not topics or topics[-1][0] != topic_id:
            topics.append((topic_id, []))
        topics[-1][1].append(_PARTITION.pack(*told, 0))
    pieces = [_HEAD_BEHIND_TAGS.pack(*limits, 0, *session, len(topics) + 1)]
    for topic_id, parts in topics:
        pieces += (topic_id, bytes((len(parts) + 1,)), *parts, b"\0")
    pieces.append(_TAIL.pack(_NOTES, *broker, 0))
    return b"".join(pieces)


def write_answer(
    correlation_id: int,
    session_id: int,
    topics: Sequence[tuple[Uuid, Sequence[tuple[int, int, int, int, FileRegion | Buffer]]]],
    region: type[FileRegion],
) -> list[Buffer | FileRegion] | None:
    """Return the answer, header included, in parts; None if it has too many partitions.

    A partition is its index, high watermark, last stable offset, log start offset and records,
    which become a part of their own if they are a ``region``."""
    if len(topics) > _COUNT_MAX:
        return None
    out = bytearray(_ANSWER.pack(correlation_id, 0, 0, 0, session_id, len(topics) + 1))
    parts: list[Buffer | FileRegion] = []
    for topic_id, partitions in topics:
        if len(partitions) > _COUNT_MAX:
            return None
        out += topic_id
        out.append(len(partitions) + 1)
        for index, watermark, stable, start, records in partitions:
            out += _READ.pack(index, 0, watermark, stable, start, 0, -1)
            if isinstance(records, region):
                write_uvarint(out, records.size_bytes + 1)
                parts += (out, records)
                out = bytearray()
            else:
                assert not isinstance(records, tuple)
                write_uvarint(out, len(records) + 1)
                out += records
            out.append(0)
        out.append(0)
    out.append(0)
    parts.append(out)
    return parts


def read_answer(frame: memoryview) -> tuple[int, list[PartitionAnswer]] | None:
    """Return the session's id and the partitions of an answer, given behind its header; None if it
    has another form."""
    found: list[PartitionAnswer] = []
    try:
        _, error, session_id, topics = _BODY.unpack_from(frame)
        if error or not 0 < topics < 128:
            return None
        position = 11
        for _ in range(topics - 1):
            topic_id = bytes(frame[position : position + _ID_BYTES])
            partitions = frame[position + _ID_BYTES]
            if not 0 < partitions < 128:
                return None
            position += _ID_BYTES + 1
            for _ in range(partitions - 1):
                index, error, watermark, _, start, aborted, other = _READ.unpack_from(
                    frame, position
                )
                size, position = read_uvarint(frame, position + _READ.size)
                end = position + size - 1
                # Null records are left to the declared message, and so are all tags.
                if error or aborted or other != -1 or not size or frame[end]:
                    return None
                found.append((topic_id, index, watermark, start, frame[position:end]))
                position = end + 1
            if frame[position]:
                return None
            position += 1
        if frame[position] or len(frame) != position + 1:
            return None
    except (struct.error, IndexError, ValueError):
        return None
    return session_id, found
