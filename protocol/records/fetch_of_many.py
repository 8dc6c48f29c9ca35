"""A fetch request for many partitions, cut into one piece of bytes for each, and its answer.

Clients without sessions say the same of nearly all partitions in each request: equal pieces need
not be understood twice. Consumers only, in full, without a session, versions 11 to 18. Pure. HOT.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.primitives import read_uvarint, write_uvarint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ids import Uuid

_FLEXIBLE_FROM, _TOPIC_ID_FROM, _REPLICA_TAG_FROM = 12, 13, 15
_CONSUMER, _NO_SESSION, _FINAL_EPOCH = -1, 0, -1
# Replica, wait, least and most bytes, isolation, session, its epoch.
_CLASSIC_START = struct.Struct(">iiiibii")
_COMPACT_START = struct.Struct(">Biiiibii")
_TAGGED_START = struct.Struct(">Biiibii")
# Index, leader epoch, offset, (last fetched epoch,) log start, most bytes, (tags).
_CLASSIC_PIECE = struct.Struct(">iiqqi")
_COMPACT_PIECE = struct.Struct(">iiqiqiB")
_CLASSIC_PART = struct.Struct(">ihqqqiii").pack
_COMPACT_PART = struct.Struct(">ihqqqBi").pack
_CLASSIC_HEAD = struct.Struct(">iihii").pack
_COMPACT_HEAD = struct.Struct(">iBihi").pack
_ID_BYTES = 16
_COUNT = struct.Struct(">i")
_SIZE = struct.Struct(">h")


class PiecesOfTopic(NamedTuple):
    """``named``: as an answer spells the topic. The id is all zeros where the name was said."""

    named: bytes
    topic: str
    topic_id: Uuid
    pieces: list[bytes]


class FetchOfMany(NamedTuple):
    """Wait in milliseconds, sizes in bytes."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    topics: list[PiecesOfTopic]


class PieceFields(NamedTuple):
    """What a piece says of its partition."""

    partition: int
    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    max_bytes: int
    has_tags: bool


class FetchCodec:
    """One version; made once."""

    __slots__ = ("_is_flexible", "_version", "end")

    def __init__(self, version: int) -> None:
        self._version = version
        self._is_flexible = version >= _FLEXIBLE_FROM
        # Behind each partition, each topic and the whole.
        self.end = b"\0" if self._is_flexible else b""

    def read(self, frame: memoryview, position: int) -> FetchOfMany | None:
        """The request whose header's client id ends at the position; None for the ordinary way."""
        data = bytes(frame)
        try:
            start, position = self._start(data, position)
            if start is None:
                return None
            topics = []
            count, position = self._count(data, position)
            for _ in range(count):
                topic, position = self._topic(data, position)
                if topic is None:
                    return None
                topics.append(topic)
            forgotten, position = self._count(data, position)
            size, position = self._size(data, position)
            # A rack decides which replica to read from; behind it are the tags.
            if forgotten or size > 0 or data[position:] != self.end:
                return None
        except (struct.error, IndexError, UnicodeDecodeError, RemoteProtocolError):
            return None
        if len({topic.named for topic in topics}) != len(topics):
            return None
        return FetchOfMany(*start, topics)

    def _start(self, data: bytes, position: int) -> tuple[tuple[int, int, int, int] | None, int]:
        tags, replica = 0, _CONSUMER
        if self._version >= _REPLICA_TAG_FROM:
            tags, *rest, session, epoch = _TAGGED_START.unpack_from(data, position)
            position += _TAGGED_START.size
        elif self._is_flexible:
            tags, replica, *rest, session, epoch = _COMPACT_START.unpack_from(data, position)
            position += _COMPACT_START.size
        else:
            replica, *rest, session, epoch = _CLASSIC_START.unpack_from(data, position)
            position += _CLASSIC_START.size
        if tags or replica != _CONSUMER or session != _NO_SESSION or epoch != _FINAL_EPOCH:
            return None, position
        wait_ms, least, most, level = rest
        return (wait_ms, least, most, level), position

    def _topic(self, data: bytes, position: int) -> tuple[PiecesOfTopic | None, int]:
        first, name, topic_id = position, "", ZERO_UUID
        if self._version >= _TOPIC_ID_FROM:
            position += _ID_BYTES
            topic_id = data[first:position]
        else:
            size, position = self._size(data, position)
            if size < 0:
                return None, position
            name = str(data[position : position + size], "utf-8")
            position += size
        named = data[first:position]
        count, position = self._count(data, position)
        size = (_COMPACT_PIECE if self._is_flexible else _CLASSIC_PIECE).size
        behind = position + size * count
        if count <= 0 or behind > len(data):
            return None, position
        pieces = [data[at : at + size] for at in range(position, behind, size)]
        # Named twice: the last one counts. A piece is told from its like by its bytes only.
        if len(set(pieces)) != count or (self._is_flexible and data[behind]):
            return None, behind
        return PiecesOfTopic(named, name, topic_id, pieces), behind + len(self.end)

    def _count(self, data: bytes, position: int) -> tuple[int, int]:
        if self._is_flexible:
            count, position = read_uvarint(data, position)
            return count - 1, position
        return _COUNT.unpack_from(data, position)[0], position + _COUNT.size

    def _size(self, data: bytes, position: int) -> tuple[int, int]:
        if self._is_flexible:
            return self._count(data, position)
        return _SIZE.unpack_from(data, position)[0], position + _SIZE.size

    def fields(self, piece: bytes) -> PieceFields:
        """What a piece says."""
        if self._is_flexible:
            index, epoch, offset, last_epoch, _, most, tags = _COMPACT_PIECE.unpack(piece)
            return PieceFields(index, epoch, offset, last_epoch, most, bool(tags))
        index, epoch, offset, _, most = _CLASSIC_PIECE.unpack(piece)
        return PieceFields(index, epoch, offset, -1, most, has_tags=False)

    def head(self, correlation_id: int, topic_count: int) -> bytes:
        """The beginning of an answer, with its header."""
        if not self._is_flexible:
            return _CLASSIC_HEAD(correlation_id, 0, 0, 0, topic_count)
        return _COMPACT_HEAD(correlation_id, 0, 0, 0, 0) + _written(topic_count + 1)

    def topic(self, topic: PiecesOfTopic) -> bytes:
        """The beginning of a topic's answer."""
        count = len(topic.pieces)
        return topic.named + (_written(count + 1) if self._is_flexible else _COUNT.pack(count))

    def part(
        self, index: int, offsets: Sequence[int], size_bytes: int, *, read_committed: bool
    ) -> bytes:
        """A partition's answer up to its records. Offsets: high watermark, last stable, start."""
        if not self._is_flexible:
            aborted = 0 if read_committed else -1
            return _CLASSIC_PART(index, 0, *offsets, aborted, -1, size_bytes)
        part = _COMPACT_PART(index, 0, *offsets, 1 if read_committed else 0, -1)
        return part + _written(size_bytes + 1)


def _written(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    write_uvarint(out, value)
    return bytes(out)
