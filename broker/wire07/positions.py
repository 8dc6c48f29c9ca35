"""What offsets of 0.7 mean: positions in the stream of bytes that a partition is for 0.7. Pure.

A consumer of 0.7 adds to its offset the sizes of the messages that it has read. So each record of a
partition has a position: that of the record before plus that record's size as a message of magic 1,
10 bytes and its value. A record's size never changes, keys and headers are not served, and markers
of transactions take no bytes. An anchor is an offset with its position; between two anchors the
records have to be read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.wire07.messages import OVERHEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Anchors that are kept in memory lie so many bytes apart, those in the store so many.
MEMORY_STEP_BYTES = 64 * 1024
STORE_STEP_BYTES = 64 * 1024 * 1024
# No position that was ever told is farther from the last stored anchor: the step, and a message.
TOLD_BYTES_MAX = STORE_STEP_BYTES + 2**31 + OVERHEAD_BYTES
IN_MEMORY_MAX = 16_384


class Anchor(NamedTuple):
    """The record at this offset, or the next one behind it, begins at this position."""

    offset: int
    position: int


class Anchors:
    """Anchors of one partition, both numbers ascending."""

    def __init__(self, anchors: Iterable[Anchor] = ()) -> None:
        self._anchors = sorted(anchors)

    def __iter__(self) -> Iterator[Anchor]:
        return iter(self._anchors)

    def __len__(self) -> int:
        return len(self._anchors)

    @property
    def last(self) -> Anchor | None:
        """The one with the largest offset."""
        return self._anchors[-1] if self._anchors else None

    def before_offset(self, offset: int) -> Anchor | None:
        """The last one that is not behind an offset."""
        number = bisect_right(self._anchors, offset, key=_offset_of)
        return self._anchors[number - 1] if number else None

    def from_offset(self, offset: int) -> Anchor | None:
        """The first one that is not before an offset."""
        number = bisect_left(self._anchors, offset, key=_offset_of)
        return self._anchors[number] if number < len(self._anchors) else None

    def before_position(self, position: int) -> Anchor | None:
        """The last one that is not behind a position."""
        number = bisect_right(self._anchors, position, key=_position_of)
        return self._anchors[number - 1] if number else None

    def add(self, anchor: Anchor, step_bytes: int = 0) -> bool:
        """Take an anchor, unless the one before it is closer than a step; whether it was taken."""
        before = self.before_offset(anchor.offset)
        if before is not None and (
            before.offset == anchor.offset or anchor.position - before.position < step_bytes
        ):
            return False
        self._anchors.insert(bisect_right(self._anchors, anchor), anchor)
        return True

    def forget_before(self, offset: int) -> None:
        """Drop those whose records are no longer in the log."""
        del self._anchors[: bisect_left(self._anchors, offset, key=_offset_of)]

    def forget_behind(self, offset: int) -> None:
        """Drop those of records that are not committed any more."""
        del self._anchors[bisect_right(self._anchors, offset, key=_offset_of) :]

    def thin_out(self, count_max: int) -> None:
        """Drop every second one, but neither the first nor the last, if there are too many."""
        if len(self._anchors) > count_max:
            self._anchors[1:-1] = self._anchors[2:-1:2]


def _offset_of(anchor: Anchor) -> int:
    return anchor.offset


def _position_of(anchor: Anchor) -> int:
    return anchor.position


def beyond_all_told(last: Anchor, log_start_offset: int) -> Anchor:
    """Where a log goes on whose records before its start have been deleted unseen.

    No consumer has been told a position as large, so each learns that its own is out of range."""
    assert last.position >= 0
    return Anchor(log_start_offset, last.position + TOLD_BYTES_MAX)
