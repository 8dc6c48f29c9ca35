"""One record at a time from data that comes in pieces, with the reason for each refusal.

The survey (survey_pure.py) goes over good records that lie in one piece. This reads the others: a
record that begins in one piece and ends in another, of which no more than a piece is ever held,
and the record that is not good, to say what is wrong with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.survey_pure import INT_BYTES_MAX
from ottla.protocol.records.varint import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.ports import Buffer

_LONG_BYTES_MAX = 10
_NOTHING = b""


class RecordStream:
    """The records of one batch, in pieces as they are decompressed.

    Raises what decompression raises, here and while reading."""

    __slots__ = ("_count", "_left", "_pieces", "index", "piece", "position")

    def __init__(self, pieces: Iterator[Buffer], count: int) -> None:
        self._pieces = pieces
        self._count = count
        # What remains of the record that is being read.
        self._left = INT64_MAX
        self.piece: Buffer = _NOTHING
        self.position = 0
        """Where the next byte is, in the piece."""
        self.index = 0
        """The number of the next record."""
        self._has_more()

    def read(self, base_timestamp: int) -> tuple[int, bool]:
        """Read one record: its timestamp and whether it has a key.

        Raises KafkaError(INVALID_RECORD)."""
        self._left = INT64_MAX
        length = self._int("length")
        if length <= 0:
            raise self._wrong(f"has a length of {length}")
        self._left = length
        self._byte()
        timestamp = base_timestamp + self._varint("timestamp delta", _LONG_BYTES_MAX)
        if not INT64_MIN <= timestamp <= INT64_MAX:
            raise self._wrong("has a timestamp that does not fit 64 bits")
        delta = self._int("offset delta")
        if delta != self.index:
            raise self._wrong(f"has an offset delta of {delta}")
        has_key = self._skip_field("key", -1)
        self._skip_field("value", -1)
        for _ in range(self._header_count()):
            self._skip_field("header key", 0)
            self._skip_field("header value", -1)
        if self._left:
            raise self._wrong(f"has {self._left} bytes behind its last field")
        self.index += 1
        return timestamp, has_key

    def expect_end(self) -> None:
        """Raises KafkaError(INVALID_RECORD) if bytes follow the last record."""
        if self._has_more():
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"bytes follow the last of the {self._count} records that the batch counts",
            )

    def _has_more(self) -> bool:
        while self.position == len(self.piece):
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self.piece, self.position = piece, 0
        return True

    def _wrong(self, what: str) -> KafkaError:
        return KafkaError(ErrorCode.INVALID_RECORD, f"record {self.index} of {self._count} {what}")

    def _byte(self) -> int:
        if not self._left:
            raise self._wrong("is longer than its length says")
        if not self._has_more():
            raise self._wrong("is not all there")
        self._left -= 1
        self.position += 1
        return self.piece[self.position - 1]

    def _varint(self, what: str, bytes_max: int) -> int:
        raw = 0
        for index in range(bytes_max):
            byte = self._byte()
            raw |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if raw >> 64:
                    break
                return (raw >> 1) ^ -(raw & 1)
        raise self._wrong(f"has a {what} that is no number")

    def _int(self, what: str) -> int:
        value = self._varint(what, INT_BYTES_MAX)
        if not INT32_MIN <= value <= INT32_MAX:
            raise self._wrong(f"has a {what} of {value}")
        return value

    def _header_count(self) -> int:
        count = self._int("number of headers")
        if not 0 <= count <= self._left:
            raise self._wrong(f"has {count} headers in {self._left} bytes")
        return count

    def _skip_field(self, what: str, least: int) -> bool:
        """Pass over a field with its size; whether it is not null."""
        size = self._int(f"size of a {what}")
        if size < least:
            raise self._wrong(f"has a {what} of {size} bytes")
        if size > self._left:
            raise self._wrong(f"has a {what} of {size} bytes where {self._left} are left")
        left = max(size, 0)
        self._left -= left
        while left:
            if not self._has_more():
                raise self._wrong("is not all there")
            step = min(left, len(self.piece) - self.position)
            self.position += step
            left -= step
        return size >= 0
