"""Selects the segments to delete by age or size.

A policy is a function from facts about the segments to those it would delete; one policy is enough
(LOG-22). Only whole segments at the old end are deleted, without a gap and fully below the high
watermark (LOG-17). Users may add policies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple

NO_TIMESTAMP = -1


class SegmentFacts(NamedTuple):
    """One segment as policies see it. ``max_timestamp`` is -1 if no record has a time.

    ``modified_ms`` is the file's modification time, wall clock."""

    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp: int
    modified_ms: int
    is_active: bool = False


Policy = Callable[[Sequence[SegmentFacts], int], Collection[SegmentFacts]]
"""(segments oldest first, wall clock ms) -> those it would delete."""


def record_time(segment: SegmentFacts, wall_ms: int) -> int:
    """The time from which a segment's age counts.

    That of its latest record, whatever their order (LOG-19). A record from the future would keep
    its segment for ever; in that case, or without any timestamp, the file's modification time is
    used, which a copy sets forward and so never deletes too early (hazard S-17)."""
    if segment.max_timestamp == NO_TIMESTAMP or segment.max_timestamp > wall_ms:
        return min(segment.modified_ms, wall_ms)
    return segment.max_timestamp


@dataclass(frozen=True, slots=True)
class TimeRetention:
    """``retention.ms``: delete older segments, by record times. Negative: keep for ever."""

    retention_ms: int

    def __call__(self, segments: Sequence[SegmentFacts], wall_ms: int) -> list[SegmentFacts]:
        if self.retention_ms < 0:
            return []
        return [one for one in segments if self.deletable_at_ms(one, wall_ms) < wall_ms]

    def deletable_at_ms(self, segment: SegmentFacts, wall_ms: int) -> int:
        """The last time at which the segment is kept, wall clock ms; for reports."""
        return record_time(segment, wall_ms) + self.retention_ms


@dataclass(frozen=True, slots=True)
class ModifiedTimeRetention:
    """The older rule: delete by the file's modification time (LOG-20). Off by default."""

    retention_ms: int

    def __call__(self, segments: Sequence[SegmentFacts], wall_ms: int) -> list[SegmentFacts]:
        if self.retention_ms < 0:
            return []
        return [one for one in segments if wall_ms - one.modified_ms > self.retention_ms]


@dataclass(frozen=True, slots=True)
class SizeRetention:
    """``retention.bytes``: keep at least that many bytes, as Kafka does. Negative: no limit.

    The oldest segment is deleted only while what remains is not below the limit. The partition is
    therefore larger than the limit by up to one segment; deleting until it fits would leave a
    topic whose limit is one segment with nothing but the newest batch after every roll."""

    retention_bytes: int

    def __call__(self, segments: Sequence[SegmentFacts], wall_ms: int) -> list[SegmentFacts]:
        if self.retention_bytes < 0:
            return []
        remaining_bytes = sum(one.size_bytes for one in segments)
        chosen = []
        for segment in segments:
            remaining_bytes -= segment.size_bytes
            if remaining_bytes < self.retention_bytes:
                break
            chosen.append(segment)
        kept_bytes = sum(one.size_bytes for one in segments[len(chosen) :])
        assert not chosen or kept_bytes >= self.retention_bytes
        return chosen


def deletable_count(
    segments: Sequence[SegmentFacts],
    policies: Sequence[Policy],
    wall_ms: int,
    *,
    high_watermark: int,
    log_start_offset: int = 0,
) -> int:
    """How many segments, from the oldest on, may be deleted now.

    If that includes the active one, the log must be rolled first. Segments before the log start are
    always included."""
    chosen = {one.base_offset for policy in policies for one in policy(segments, wall_ms)}
    count = 0
    for segment in segments:
        is_given_up = segment.next_offset <= log_start_offset and not segment.is_active
        is_chosen = is_given_up or segment.base_offset in chosen
        if not is_chosen or segment.next_offset > high_watermark or segment.size_bytes == 0:
            break
        count += 1
    # What is not replicated has no other copy (LOG-17).
    assert all(one.next_offset <= high_watermark for one in segments[:count])
    return count


class ClockWatch:
    """Detects jumps of the wall clock, after which retention by time must wait.

    A step of a year would delete everything (hazard S-18). Trust comes back once both clocks have
    agreed for the settling time, so a machine that slept overnight recovers by itself.

    The monotonic clock does not cover the time in which no process ran. A long absence and a jump
    look the same then, and both cost only the settling time: ``begin`` compares the wall clock with
    the last trusted time."""

    __slots__ = ("_difference_ms", "_jumped_at_ms", "settle_ms", "tolerance_ms")

    def __init__(self, tolerance_ms: float = 600_000, settle_ms: float = 3_600_000) -> None:
        self.tolerance_ms = tolerance_ms
        self.settle_ms = settle_ms
        self._difference_ms: float | None = None
        self._jumped_at_ms: float | None = None

    def begin(self, now_ms: float, wall_ms: int, last_wall_ms: int | None) -> bool:
        """Begin at a process start; ``last_wall_ms`` is the last time that an earlier one trusted.

        None: there was no earlier process, so there is nothing to lose. The caller must save the
        time only while ``is_trusted``: then a restart during the settling time settles again, and a
        clock that was corrected in between is trusted at once."""
        self._difference_ms = wall_ms - now_ms
        if last_wall_ms is not None and abs(wall_ms - last_wall_ms) > self.tolerance_ms:
            self._jumped_at_ms = now_ms
        return self._jumped_at_ms is None

    def is_trusted(self, now_ms: float, wall_ms: int) -> bool:
        """Compare the clocks; called every few minutes. False: delete nothing by time."""
        difference_ms = wall_ms - now_ms
        known_ms = self._difference_ms
        # Compared with the last call only: slow drift is no jump.
        self._difference_ms = difference_ms
        if known_ms is not None and abs(difference_ms - known_ms) > self.tolerance_ms:
            self._jumped_at_ms = now_ms
        # It settles by the monotonic clock: the wall clock is the one in doubt.
        assert self._jumped_at_ms is None or self._jumped_at_ms <= now_ms
        if self._jumped_at_ms is not None and now_ms - self._jumped_at_ms >= self.settle_ms:
            self._jumped_at_ms = None
        return self._jumped_at_ms is None
