"""The two sparse indexes of a segment, in memory as arrays and on disk as Kafka's entries.

Both are caches of what the log file says: whoever decodes one gets None on any doubt and builds
it again by scanning (hazard S-04). Offsets are relative to the segment's base offset, so that
they fit four bytes.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import ge, gt

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
_TIME_ENTRY = struct.Struct(">qi")
_LITTLE = sys.byteorder == "little"


def _strictly_ascending(values: array[int]) -> bool:
    return not any(map(ge, values, values[1:]))


class OffsetIndex:
    """Last offset of a batch -> where that batch starts; both columns strictly ascend."""

    __slots__ = ("offsets", "positions", "written_count")

    def __init__(self) -> None:
        self.offsets = array("i")
        self.positions = array("i")
        # Entries that the file on disk has already.
        self.written_count = 0

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, relative_offset: int, position: int) -> None:
        """Note that the batch starting at ``position`` ends with that offset."""
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def floor(self, relative_offset: int) -> int:
        """Where to start walking to meet the offset: the position of the nearest entry below."""
        entry = bisect_right(self.offsets, relative_offset)
        return self.positions[entry - 1] if entry else 0

    def boundary(self, position: int) -> int:
        """The last noted batch start at or before a position; 0 when there is none."""
        entry = bisect_right(self.positions, position)
        return self.positions[entry - 1] if entry else 0

    def offset_at(self, position: int) -> int | None:
        """The last offset noted for the batch that starts exactly there."""
        entry = bisect_left(self.positions, position)
        if entry < len(self.positions) and self.positions[entry] == position:
            return self.offsets[entry]
        return None

    def truncate(self, size_bytes: int) -> None:
        """Forget batches that start at or after a file position."""
        count = bisect_left(self.positions, size_bytes)
        del self.offsets[count:]
        del self.positions[count:]
        self.written_count = min(self.written_count, count)

    def encode(self, start: int = 0) -> bytes:
        """The entries from number ``start`` on as they stand in the file."""
        columns = array("i", bytes(OFFSET_ENTRY_BYTES * (len(self.offsets) - start)))
        columns[0::2] = self.offsets[start:]
        columns[1::2] = self.positions[start:]
        if _LITTLE:
            columns.byteswap()
        return columns.tobytes()

    @classmethod
    def decode(cls, content: bytes, log_bytes: int) -> OffsetIndex | None:
        """The index in a file's content, None if it cannot belong to a log of that size."""
        if len(content) % OFFSET_ENTRY_BYTES:
            return None
        columns = array("i")
        columns.frombytes(content)
        if _LITTLE:
            columns.byteswap()
        index = cls()
        index.offsets = columns[0::2]
        index.positions = columns[1::2]
        index.written_count = len(index.offsets)
        if not index.offsets:
            return index
        if index.offsets[0] < 0 or index.positions[0] < 0 or index.positions[-1] >= log_bytes:
            return None
        sound = _strictly_ascending(index.offsets) and _strictly_ascending(index.positions)
        return index if sound else None


class TimeIndex:
    """Largest timestamp so far -> the offset of its batch; timestamps strictly ascend.

    An entry says: before the batch that ends with this offset, every timestamp is smaller."""

    __slots__ = ("offsets", "timestamps", "written_count")

    def __init__(self) -> None:
        self.timestamps = array("q")
        self.offsets = array("i")
        self.written_count = 0

    def __len__(self) -> int:
        return len(self.timestamps)

    def append(self, timestamp: int, relative_offset: int) -> bool:
        """Add an entry if the timestamp is larger than the last one's; tells whether it was."""
        if self.timestamps and timestamp <= self.timestamps[-1]:
            return False
        self.timestamps.append(timestamp)
        self.offsets.append(relative_offset)
        return True

    def floor(self, timestamp: int) -> int | None:
        """The offset from which a search for the first record at or after a time may start."""
        entry = bisect_left(self.timestamps, timestamp)
        return self.offsets[entry - 1] if entry else None

    def truncate(self, relative_offset: int) -> None:
        """Forget entries at or after an offset."""
        count = bisect_left(self.offsets, relative_offset)
        del self.timestamps[count:]
        del self.offsets[count:]
        self.written_count = min(self.written_count, count)

    def encode(self, start: int = 0) -> bytes:
        """The entries from number ``start`` on as they stand in the file."""
        content = bytearray(TIME_ENTRY_BYTES * (len(self.timestamps) - start))
        for entry in range(start, len(self.timestamps)):
            position = TIME_ENTRY_BYTES * (entry - start)
            _TIME_ENTRY.pack_into(content, position, self.timestamps[entry], self.offsets[entry])
        return bytes(content)

    @classmethod
    def decode(cls, content: bytes) -> TimeIndex | None:
        """The index in a file's content, None if it cannot be one."""
        if len(content) % TIME_ENTRY_BYTES:
            return None
        index = cls()
        for timestamp, relative_offset in _TIME_ENTRY.iter_unpack(content):
            index.timestamps.append(timestamp)
            index.offsets.append(relative_offset)
        index.written_count = len(index.timestamps)
        if not index.timestamps:
            return index
        if index.offsets[0] < 0:
            return None
        if any(map(gt, index.offsets, index.offsets[1:])):
            return None
        return index if _strictly_ascending(index.timestamps) else None
