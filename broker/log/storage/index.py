"""The two sparse indexes of a segment, in memory as arrays and on disk as Kafka's entries.

Both are caches of the data file: decoding returns None on any doubt, and the caller rebuilds the
index by a scan (hazard S-04). Offsets are relative to the segment's base offset, so that they fit
four bytes.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import ge, gt

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
_LITTLE = sys.byteorder == "little"
# The positions of the halves of a native eight-byte integer, in four-byte words.
_LOW, _HIGH = (0, 1) if _LITTLE else (1, 0)


def _words_of(content: bytes) -> array[int]:
    """Big-endian four-byte words, as the files have them."""
    words = array("i")
    words.frombytes(content)
    if _LITTLE:
        words.byteswap()
    return words


def _content_of(words: array[int]) -> bytes:
    if _LITTLE:
        words.byteswap()
    return words.tobytes()


def _strictly_ascending(values: array[int]) -> bool:
    return not any(map(ge, values, values[1:]))


class OffsetIndex:
    """Last offset of a batch -> where that batch starts; both columns strictly ascend."""

    __slots__ = ("offsets", "positions", "written_count")

    def __init__(self) -> None:
        self.offsets = array("i")
        self.positions = array("i")
        # Entries that are in the file already.
        self.written_count = 0

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, relative_offset: int, position: int) -> None:
        """Note that the batch starting at ``position`` ends with that offset."""
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def floor(self, relative_offset: int) -> int:
        """The position of the nearest entry at or below the offset, to start a walk from."""
        entry = bisect_right(self.offsets, relative_offset)
        return self.positions[entry - 1] if entry else 0

    def boundary(self, position: int) -> int:
        """The last indexed batch start at or before a position; 0 when there is none."""
        entry = bisect_right(self.positions, position)
        return self.positions[entry - 1] if entry else 0

    def offset_at(self, position: int) -> int | None:
        """The last offset of the batch that starts exactly there; None if it is not indexed."""
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
        words = array("i", bytes(OFFSET_ENTRY_BYTES * (len(self.offsets) - start)))
        words[0::2] = self.offsets[start:]
        words[1::2] = self.positions[start:]
        return _content_of(words)

    @classmethod
    def decode(cls, content: bytes, log_bytes: int) -> OffsetIndex | None:
        """The index in a file's content; None if it cannot belong to a log of that size.

        Only its ends are checked; see ``is_ascending``."""
        if len(content) % OFFSET_ENTRY_BYTES:
            return None
        words = _words_of(content)
        index = cls()
        index.offsets, index.positions = words[0::2], words[1::2]
        index.written_count = len(index.offsets)
        if not words:
            return index
        is_sound = words[0] >= 0 and words[1] >= 0 and index.positions[-1] < log_bytes
        if len(index.offsets) > 1:
            is_sound = is_sound and words[0] < words[-2] and words[1] < words[-1]
        return index if is_sound else None

    @property
    def is_ascending(self) -> bool:
        """Whether bisection finds what is there; takes milliseconds for a full index.

        Not needed where each entry is compared with the batch that it leads to."""
        return _strictly_ascending(self.offsets) and _strictly_ascending(self.positions)


class TimeIndex:
    """Largest timestamp so far -> the offset of its batch; timestamps strictly ascend.

    An entry means that all timestamps before the batch that ends with this offset are smaller."""

    __slots__ = ("_is_checked", "offsets", "timestamps", "written_count")

    def __init__(self) -> None:
        self.timestamps = array("q")
        self.offsets = array("i")
        self.written_count = 0
        self._is_checked = False

    def __len__(self) -> int:
        return len(self.timestamps)

    def append(self, timestamp: int, relative_offset: int) -> bool:
        """Add an entry if the timestamp is larger than the last one; returns whether it was."""
        if self.timestamps and timestamp <= self.timestamps[-1]:
            return False
        self.timestamps.append(timestamp)
        self.offsets.append(relative_offset)
        return True

    def floor(self, timestamp: int) -> int | None:
        """The offset to start a search for the first record at or after a time; None: the start."""
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
        halves = array("i")
        halves.frombytes(self.timestamps[start:].tobytes())
        words = array("i", bytes(TIME_ENTRY_BYTES * (len(self.timestamps) - start)))
        words[0::3] = halves[_HIGH::2]
        words[1::3] = halves[_LOW::2]
        words[2::3] = self.offsets[start:]
        return _content_of(words)

    @classmethod
    def decode(cls, content: bytes) -> TimeIndex | None:
        """The index in a file's content, None if it cannot be one; see ``is_ascending``."""
        if len(content) % TIME_ENTRY_BYTES:
            return None
        words = _words_of(content)
        index = cls()
        index.offsets = words[2::3]
        index.written_count = len(index.offsets)
        halves = array("i", bytes(8 * len(index.offsets)))
        halves[_HIGH::2] = words[0::3]
        halves[_LOW::2] = words[1::3]
        index.timestamps.frombytes(halves.tobytes())
        if not words:
            return index
        is_sound = words[2] >= 0
        if len(index.offsets) > 1:
            is_sound = is_sound and words[2] <= words[-1]
            is_sound = is_sound and index.timestamps[0] < index.timestamps[-1]
        return index if is_sound else None

    @property
    def is_ascending(self) -> bool:
        """Whether bisection finds what is there; takes milliseconds for a full index, once."""
        if not self._is_checked:
            is_sound = not any(map(gt, self.offsets, self.offsets[1:]))
            self._is_checked = is_sound and _strictly_ascending(self.timestamps)
        return self._is_checked
