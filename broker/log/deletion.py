"""Deletes whole segments from the old end of a log, never part of a file.

A segment leaves the list first, so that no new reader finds it; its files are then renamed, and
removed after ``file.delete.delay.ms``, when readers have finished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.segment_view import SegmentView, view_segments
from ottla.broker.log.storage.names import DELETED, SEGMENT_SUFFIXES
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ottla.broker.log.open_log import OpenLog
    from ottla.broker.log.storage.segment import Segment


async def delete_segments(
    log: OpenLog, policy: Callable[[Sequence[SegmentView]], int], upper_bound_offset: int
) -> int:
    """Delete as many of the oldest segments as the policy returns and the bound allows.

    If all segments are deleted, the log continues in a new one. Raises
    KafkaError(KAFKA_STORAGE_ERROR)."""
    async with log.lock:
        log.ensure_usable()
        try:
            views = view_segments(log)
            # Policies may read files, too.
            count = min(policy(views), len(views))
        except OSError as error:
            what = f"cannot look at the segments of {log.partition}"
            raise log.home.health.judge(what, error) from error
        while count > 0 and not _may_go(log, count, upper_bound_offset):
            count -= 1
        if count == 0:
            return 0
        if count == len(log.segments):
            _roll_empty(log)
        start_offset = log.segments[count].base_offset
        if start_offset > log.log_start_offset:
            _raise_start(log, start_offset)
            await _try_to_save_start(log)
        await _drop_first(log, count)
        return count


async def _try_to_save_start(log: OpenLog) -> None:
    """Keep deleted records from coming back after a power cut (S-19), unless the disk is full."""
    try:
        await log.home.save_log_starts()
        log.has_unsaved_start = False
    except KafkaError:
        log.home.health.ensure_online()


def _may_go(log: OpenLog, count: int, upper_bound_offset: int) -> bool:
    """Whether the segments end below the bound and the last one is not an empty active one."""
    last = log.segments[count - 1]
    end_offset = log.log_end_offset if last.is_active else last.next_offset
    return end_offset <= upper_bound_offset and (last.size_bytes > 0 or not last.is_active)


def _roll_empty(log: OpenLog) -> None:
    try:
        log.roll(log.log_end_offset, log.home.clock.now_ms())
    except OSError as error:
        what = f"cannot roll the log of {log.partition}"
        raise log.home.health.judge(what, error) from error


async def delete_log_before(log: OpenLog, offset: int) -> int:
    """Raise the log start offset and delete the segments wholly before it.

    The new start is durable before this returns, since records that were reported as deleted
    must not come back (hazard S-19). Raises KafkaError(KAFKA_STORAGE_ERROR)."""
    async with log.lock:
        log.ensure_usable()
        offset = min(offset, log.log_end_offset)
        if offset > log.log_start_offset:
            _raise_start(log, offset)
        if log.has_unsaved_start:
            await log.home.save_log_starts()
            log.has_unsaved_start = False
        await _drop_first(log, log.segment_number(log.log_start_offset))
        return log.log_start_offset


def _raise_start(log: OpenLog, offset: int) -> None:
    assert log.log_start_offset < offset <= log.log_end_offset
    log.log_start_offset = offset
    log.has_unsaved_start = True
    log.observer.log_start_moved(offset)


async def _drop_first(log: OpenLog, count: int) -> None:
    dropped, kept = log.segments[:count], log.segments[count:]
    if not dropped:
        return
    log.set_segments(kept)
    try:
        # The names of the kept segments first: with neither old nor new ones left after a power
        # cut, offsets would be assigned twice.
        await log.sync_names()
    except OSError as error:
        raise log.home.health.latch(f"cannot sync {log.directory}", error) from error
    # Oldest first: what a crash leaves of them is contiguous with the kept segments.
    await bury_segments(log, dropped)


async def bury_segments(log: OpenLog, segments: Iterable[Segment]) -> None:
    """Rename the files of segments that were removed from the list, in the order given.

    Raises KafkaError(KAFKA_STORAGE_ERROR) naming the file that could not be renamed."""
    disk = log.home.disk
    due_ms = log.home.clock.now_ms() + log.settings.file_delete_delay_ms
    for segment in segments:
        segment.detach()
        for suffix in SEGMENT_SUFFIXES:
            path = segment.path_of(suffix)
            try:
                if disk.exists(path):
                    await disk.rename(path, path + DELETED)
                    log.names_changed += 1
                    log.home.late_deletions.schedule(path + DELETED, due_ms)
            except OSError as error:
                raise log.home.health.latch(f"cannot delete {path}", error) from error
        if segment.base_offset in log.snapshot_offsets:
            log.snapshot_offsets.remove(segment.base_offset)


async def remove_snapshots_after(log: OpenLog, offset: int) -> None:
    """Remove producer snapshots at offsets beyond the log end ``offset``."""
    for snapshot_offset in [number for number in log.snapshot_offsets if number > offset]:
        path = log.snapshot_path(snapshot_offset)
        try:
            await log.home.disk.unlink(path)
        except OSError as error:
            raise log.home.health.latch(f"cannot delete {path}", error) from error
        log.snapshot_offsets.remove(snapshot_offset)
