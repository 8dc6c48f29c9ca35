"""Passes the records of a stored region in order, as messages of 0.7. Pure.

It counts their bytes, to find the record at a position or the position of a record, or collects
them for a consumer, the last one perhaps cut off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.wire07.positions import Anchor
from ottla.protocol.errors import KafkaError
from ottla.protocol.message_sets.pieces import entries_in_pieces
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import RecordBatch
from ottla.protocol.records.codec import decode_records
from ottla.protocol.records.compression import OUTPUT_BYTES_MAX, Codec
from ottla.protocol.records.old_messages import read_entry
from ottla.protocol.records.record import record_view
from ottla.protocol.wire07.messages import OVERHEAD_BYTES, encode_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.old_messages import LogEntry
    from ottla.protocol.records.record import Record

_NO_LIMIT = 2**63 - 1


class Goal(NamedTuple):
    """Where a walk ends: at an offset or a position, whichever comes first; or, with
    ``data_bytes``, once so many bytes of messages have been collected."""

    offset: int = _NO_LIMIT
    position: int = _NO_LIMIT
    data_bytes: int = 0


class Walk:
    """One walk through a region that begins with a stored batch.

    ``read``: returns so many stored bytes from a position of the region on. ``at``: where the walk
    begins, and then where it is.

    Example: ``while walk.step(): pass``."""

    def __init__(
        self, read: Callable[[int, int], bytes], size_bytes: int, at: Anchor, goal: Goal
    ) -> None:
        self.at = at
        self.data = bytearray()
        self._goal = goal
        self._entries = entries_in_pieces(read, size_bytes)

    @property
    def has_arrived(self) -> bool:
        """Whether the goal is reached."""
        goal, at = self._goal, self.at
        if goal.data_bytes:
            return len(self.data) >= goal.data_bytes
        return at.offset >= goal.offset or at.position >= goal.position

    def step(self) -> bool:
        """Pass one stored batch; False at the goal or the end. Raises OSError, and KafkaError for
        records that cannot be read, unless messages before them have been collected."""
        try:
            return self._step()
        except KafkaError:
            # The next fetch begins with the fault.
            if not self.data:
                raise
            return False

    def _step(self) -> bool:
        entry = next(self._entries, None)
        if entry is None:
            return False
        for record in _records(entry):
            if record.offset < self.at.offset:
                continue
            self.at = Anchor(record.offset, self.at.position)
            if self.has_arrived or not self._pass(record.offset, record.value):
                return False
        end = entry.next_offset if isinstance(entry, RecordBatch) else entry.offset + 1
        self.at = Anchor(max(self.at.offset, end), self.at.position)
        return not self.has_arrived

    def _pass(self, offset: int, value: Buffer | None) -> bool:
        """Whether the whole message was passed."""
        size_bytes = OVERHEAD_BYTES + len(value or b"")
        room_bytes = self._goal.data_bytes - len(self.data)
        if self._goal.data_bytes:
            self.data += encode_message(value or b"", Codec.NONE)[:room_bytes]
            if size_bytes > room_bytes:
                return False
        self.at = Anchor(offset + 1, self.at.position + size_bytes)
        return True


def _records(entry: LogEntry) -> list[Record]:
    if isinstance(entry, RecordBatch):
        if entry.is_control:
            return []
        return decode_records(entry, record_view(entry, OUTPUT_BYTES_MAX))
    return list(read_entry(entry))
