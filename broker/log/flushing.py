"""Flushes a log, in the only safe order: data, names, epochs, recovery point.

Everything below the recovery point survives a power cut, so it moves last (hazards S-06, S-07). A
failed fsync takes the directory offline and is never repeated: the kernel reports it once and
forgets which pages it lost (S-09).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.concurrently import pipelined
from ottla.broker.engine.tasks import to_its_end
from ottla.broker.log.storage.checkpoints import encode_leader_epochs, replace_file
from ottla.broker.log.storage.health import SCARCE_MS, is_out_of_descriptors
from ottla.broker.log.storage.names import LEADER_EPOCHS, join

if TYPE_CHECKING:
    from ottla.broker.log.open_log import OpenLog
    from ottla.broker.log.storage.segment import Segment

SNAPSHOT_INTERVAL_BYTES = 16 * 1024 * 1024
# In addition to those at segment starts; the saved recovery point may be a few flushes behind.
EXTRA_SNAPSHOTS_MAX = 3
# Segments flushed concurrently: file systems flush several files in little more time than one.
# Equals the threads that a broker flushes with, so that other logs wait for one flush at most.
FLUSHED_AT_ONCE = 4


async def flush_log(log: OpenLog, end_offset: int | None = None) -> None:
    """Make everything below ``end_offset`` (by default the current log end) durable.

    Raises KafkaError(KAFKA_STORAGE_ERROR), also if the log was deleted in the meantime."""
    target = log.log_end_offset if end_offset is None else end_offset
    async with log.lock:
        if log.recovery_point < target:
            # The files of a deleted log are renamed; missing them would look like a failing disk
            # and take the whole directory offline.
            log.ensure_usable()
            await flush_locked(log, target)


async def flush_locked(log: OpenLog, target: int) -> None:
    """As ``flush_log``; the caller holds the log's lock."""
    log.home.health.ensure_online()
    # Later appends count for the next flush; if this one fails, the old time is restored.
    since_ms, log.unflushed_since_ms = log.unflushed_since_ms, None
    is_done = False
    synced: set[Segment] = set()
    try:
        while not await _try_to_flush(log, target, synced):
            await log.home.clock.sleep(SCARCE_MS)
            log.home.health.ensure_online()
        is_done = True
    finally:
        if not is_done:
            log.unflushed_since_ms = since_ms
    log.recovery_point = max(log.recovery_point, target)


async def _try_to_flush(log: OpenLog, target: int, synced: set[Segment]) -> bool:
    """Flush once; False if the process ran out of file descriptors and the caller should retry.

    Connections may take all descriptors and release them. No fsync fails for that reason, so a
    retry is safe."""
    try:
        if target == log.log_end_offset:
            await _save_producers(log)
        if not await _flush_segments(log, target, synced):
            await _sync_files(log)
            log.home.health.make_room()
            return False
        await _sync_files(log)
        await log.sync_names()
        await save_leader_epochs_locked(log)
    except OSError as error:
        if is_out_of_descriptors(error):
            log.home.health.make_room()
            return False
        raise log.home.health.latch(f"cannot flush the log of {log.partition}", error) from error
    return True


async def _sync_files(log: OpenLog) -> None:
    while log.files_to_sync:
        some = log.files_to_sync[:FLUSHED_AT_ONCE]
        await pipelined(lambda file: file.fsync(), some, FLUSHED_AT_ONCE)
        del log.files_to_sync[: len(some)]


async def _flush_segments(log: OpenLog, target: int, synced: set[Segment]) -> bool:
    """Flush the segments; False if a descriptor was missing: flushed ones may release theirs.

    Raises OSError."""
    waiting = [
        segment
        for segment in log.segments
        if segment.base_offset < target and not _is_flushed(segment)
    ]
    done = await pipelined(lambda one: _try_segment(one, synced), waiting, FLUSHED_AT_ONCE)
    return all(done)


def _is_flushed(segment: Segment) -> bool:
    return segment.synced_bytes == segment.size_bytes and segment.indexes.is_written


async def _try_segment(segment: Segment, synced: set[Segment]) -> bool:
    try:
        await _flush_segment(segment, synced)
    except OSError as error:
        if not is_out_of_descriptors(error):
            raise
        return False
    return True


async def _save_producers(log: OpenLog) -> None:
    """Save a producer snapshot, so that the next recovery reads less."""
    if log.active.size_bytes - log.snapshot_position < SNAPSHOT_INTERVAL_BYTES:
        return
    log.take_snapshot(log.log_end_offset)
    base_offsets = {segment.base_offset for segment in log.segments}
    extra = [offset for offset in log.snapshot_offsets if offset not in base_offsets]
    for offset in extra[:-EXTRA_SNAPSHOTS_MAX]:
        log.snapshot_offsets.remove(offset)
        await log.home.disk.unlink(log.snapshot_path(offset))


async def _flush_segment(segment: Segment, synced: set[Segment]) -> None:
    """Flush one segment. ``synced``: segments whose data an earlier try under this lock flushed."""
    size_bytes = segment.size_bytes
    # The data first: an index that reaches beyond the data is rejected at the next start.
    if segment not in synced:
        await segment.file.fsync()
    try:
        written = segment.indexes.write()
    except OSError as error:
        is_whole = not segment.is_active and segment.size_bytes == size_bytes
        if is_out_of_descriptors(error) and is_whole:
            # The fsync of the writing descriptor has succeeded, so it can be closed.
            synced.add(segment)
            segment.close_file()
        raise
    for file in written:
        await file.fsync()
    del written
    transactions = segment.transactions.file_to_sync()
    if transactions is not None:
        await transactions.fsync()
    segment.synced_bytes = size_bytes


async def save_leader_epochs(log: OpenLog) -> None:
    """Make the leader epochs durable if they have changed. Raises KafkaError."""
    async with log.lock:
        log.ensure_usable()
        try:
            await save_leader_epochs_locked(log)
        except OSError as error:
            # On a full disk the old file is intact, so the directory stays online.
            what = f"cannot save the leader epochs of {log.partition}"
            raise log.home.health.judge(what, error) from error


async def save_leader_epochs_locked(log: OpenLog) -> None:
    """As ``save_leader_epochs``; the caller holds the log's lock. Raises OSError."""
    entries = [(epoch, start_offset) for epoch, start_offset in log.observer.leader_epochs()]
    if entries != log.saved_leader_epochs:
        path = join(log.directory, LEADER_EPOCHS)
        # A stop cancels the flushing task and closes the log at once, which writes this file again.
        await to_its_end(replace_file(log.home.disk, path, encode_leader_epochs(entries)))
        log.saved_leader_epochs = entries


CLOSED = "it is closed"


async def close_log(log: OpenLog) -> bool:
    """Refuse appends, save the producers as of the log end, and flush everything.

    False if the log was unusable before, so that its files may be inconsistent."""
    async with log.lock:
        if log.refusal is not None:
            # A first call that was cancelled may have left something unflushed.
            return log.refusal == CLOSED and log.recovery_point == log.log_end_offset
        log.refusal = CLOSED
        log.home.health.ensure_online()
        try:
            log.take_snapshot(log.log_end_offset)
        except OSError as error:
            what = f"cannot save the producers of {log.partition}"
            raise log.home.health.latch(what, error) from error
        await flush_locked(log, log.log_end_offset)
        try:
            log.active.give_back_blocks()
        except OSError as error:
            raise log.home.health.latch(f"cannot close {log.active.path}", error) from error
        for segment in log.segments:
            segment.release()
        return True
