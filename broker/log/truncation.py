"""Truncates a log to what its leader has, or restarts it at another offset.

The order makes a crash at any point safe: the recovery point is lowered first, durably, so that
recovery scans the rest; then files are removed from the newest on, so that the remaining ones are
always a prefix of the log. Bytes that a reply may be sending never change: if a reply still holds
the file, a copy of the kept part takes its name (hazard S-20).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.deletion import bury_segments, remove_snapshots_after
from ottla.broker.log.flushing import save_leader_epochs_locked
from ottla.broker.log.replay import rebuild_observer
from ottla.broker.log.resuming import resume_segment
from ottla.broker.log.storage.names import CLEANED
from ottla.broker.log.storage.slices import locate
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.broker.log.open_log import OpenLog
    from ottla.broker.log.storage.segment import Segment

_COPY_BYTES = 1024 * 1024
# How long to wait for replies that send from a file before it is copied instead.
_PATIENCE_MS = 200
_LOOK_MS = 10


async def truncate_log(log: OpenLog, offset: int, may_begin: Callable[[], bool]) -> int:
    """Truncate to an offset; returns the log end offset, which may be lower.

    Raises KafkaError(KAFKA_STORAGE_ERROR), CorruptLogError; appends are then refused for good."""
    async with log.lock:
        log.ensure_usable()
        if not may_begin():
            return log.log_end_offset
        if offset >= log.log_end_offset:
            await _change(log, _forget_epochs, log.log_end_offset)
        elif offset <= log.segments[0].base_offset:
            await _change(log, _restart, offset)
        else:
            await _change(log, _truncate, offset)
        return log.log_end_offset


async def restart_log(log: OpenLog, offset: int, may_begin: Callable[[], bool]) -> None:
    """Drop everything and restart, empty, at an offset. Raises as ``truncate_log``."""
    async with log.lock:
        log.ensure_usable()
        if may_begin():
            await _change(log, _restart, offset)


async def _change(
    log: OpenLog, operation: Callable[[OpenLog, int], Awaitable[None]], offset: int
) -> None:
    log.refusal = "it is being truncated"
    try:
        await operation(log, offset)
    except OSError as error:
        log.refusal = "a truncation failed"
        raise log.home.health.latch(f"cannot truncate the log of {log.partition}", error) from error
    log.refusal = None


async def _truncate(log: OpenLog, offset: int) -> None:
    kept = [segment for segment in log.segments if segment.base_offset < offset]
    dropped = log.segments[len(kept) :]
    last = kept[-1]
    place = locate(last, offset)
    position = last.size_bytes if place is None else place.position
    # A batch cannot be split: the new end is the start of the batch.
    end_offset = offset if place is None else min(offset, place.base_offset)
    await _lower_offsets(log, end_offset)
    log.set_segments(kept)
    log.log_end_offset = end_offset
    log.note_cut(end_offset)
    last.cut(position, end_offset)
    await bury_segments(log, reversed(dropped))
    await _cut_files(log, last, end_offset)
    # Directly behind the last batch, even if the offset is in a gap left by compaction.
    last.next_offset = resume_segment(last)
    log.log_end_offset = end_offset = max(last.next_offset, log.log_start_offset)
    log.note_cut(end_offset)
    if log.recovery_point > end_offset:
        # Records that will be written there are not flushed yet.
        log.recovery_point = end_offset
        await log.home.save_recovery_points()
    log.cleaned_offset = min(log.cleaned_offset, end_offset)
    log.start_clock(last, log.home.clock.now_ms())
    await _finish(log, end_offset)


async def _restart(log: OpenLog, offset: int) -> None:
    await _lower_offsets(log, offset)
    # From here on there is nothing to read, so no reader opens a file that is being renamed.
    log.log_start_offset = log.log_end_offset = log.recovery_point = offset
    log.note_cut(offset)
    # After a crash that leaves no segment at all, the log starts here, too.
    await log.home.save_log_starts()
    await bury_segments(log, reversed(log.segments))
    await remove_snapshots_after(log, -1)
    log.set_segments([log.new_segment(offset, log.home.clock.now_ms())])
    log.observer.log_start_moved(offset)
    await _finish(log, offset)


async def _lower_offsets(log: OpenLog, end_offset: int) -> None:
    """Lower the checkpoints, durably, before the first byte is removed (S-06)."""
    try:
        if log.recovery_point > end_offset:
            log.recovery_point = end_offset
            await log.home.save_recovery_points()
        if log.log_start_offset > end_offset:
            log.log_start_offset = end_offset
            await log.home.save_log_starts()
        if log.cleaned_offset > end_offset:
            # Other records will take those offsets, and they are not compacted.
            log.cleaned_offset = end_offset
            await log.home.save_cleaner_offsets()
    except KafkaError:
        # Nothing is cut yet, so a full disk need not make the log unusable.
        log.refusal = None
        raise


async def _finish(log: OpenLog, end_offset: int) -> None:
    """Bring snapshots, leader epochs and the observer to the new log end."""
    await remove_snapshots_after(log, end_offset)
    await log.sync_names()
    await _forget_epochs(log, end_offset)
    await rebuild_observer(log)


async def _forget_epochs(log: OpenLog, end_offset: int) -> None:
    """Drop leader epochs at or after the end; one may start exactly there (hazard S-28)."""
    log.observer.truncated(end_offset)
    await save_leader_epochs_locked(log)


async def _cut_files(log: OpenLog, segment: Segment, end_offset: int) -> None:
    disk, clock = log.home.disk, log.home.clock
    is_held = segment.detach()
    patient_until_ms = clock.now_ms() + _PATIENCE_MS
    while is_held() and clock.now_ms() < patient_until_ms:
        await clock.sleep(_LOOK_MS)
    if not is_held():
        file = disk.open(segment.path)
        file.truncate(segment.size_bytes)
        # Durable before anything is appended: otherwise a power cut could leave a mix of the
        # bytes before and after, which looks like damage.
        await file.fsync()
    else:
        await _replace_by_copy(log, segment)
    # A read may have opened the file again: before the copy took its name, and then appends would
    # go to the unlinked file; or before the cut, with the old size.
    segment.close_file()
    segment.synced_bytes = segment.size_bytes
    indexes = segment.load_indexes()
    indexes.cut(segment.size_bytes, end_offset - segment.base_offset)
    for cut in indexes.cut_files():
        await cut.fsync()
    segment.transactions.truncate(end_offset)


async def _replace_by_copy(log: OpenLog, segment: Segment) -> None:
    disk = log.home.disk
    source = disk.open(segment.path)
    target = disk.open(segment.path + CLEANED, create=True)
    target.truncate(0)
    for position in range(0, segment.size_bytes, _COPY_BYTES):
        count = min(_COPY_BYTES, segment.size_bytes - position)
        target.append([await log.home.offload.run(source.pread, count, position)])
    await target.fsync()
    await disk.rename(segment.path + CLEANED, segment.path)
    log.names_changed += 1
