"""Loads one partition's directory, either by its clean mark or by recovery.

A clean log must match its entry in the mark exactly; any other is scanned from its recovery point
on, since a crash may have left anything. Loading is idempotent.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ottla.broker.log.deletion import bury_segments, remove_snapshots_after
from ottla.broker.log.recovery.leftovers import tidy_directory
from ottla.broker.log.recovery.old_segments import raise_old_segments
from ottla.broker.log.recovery.power_loss import set_aside, shows_lost_writes
from ottla.broker.log.recovery.recovery import Scanner, cut_torn_end, damage, is_torn
from ottla.broker.log.replay import (
    holds_marker,
    load_newest_snapshot,
    replay_segment,
    unsettled_parts,
)
from ottla.broker.log.resuming import resume_segment
from ottla.broker.log.storage.checkpoints import (
    decode_leader_epochs,
    decode_partition_metadata,
    encode_partition_metadata,
    read_file,
)
from ottla.broker.log.storage.names import (
    KEPT_FORMAT,
    LEADER_EPOCHS,
    LOG,
    OFFSET_INDEX,
    PARTITION_METADATA,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    join,
    parse_segment_name,
    segment_name,
)
from ottla.broker.log.storage.segment import Segment
from ottla.broker.log.storage.slices import locate
from ottla.protocol.errors import CorruptLogError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.broker.log.open_log import OpenLog
    from ottla.broker.log.recovery.clean_mark import CleanLog
    from ottla.protocol.ports import File


class Known(NamedTuple):
    """What the data directory has stored about a log; None if unknown."""

    recovery_point: int | None = None
    log_start_offset: int | None = None
    clean: CleanLog | None = None
    # The operator has decided to cut damage like a torn end.
    cut_damage: bool = False
    # The machine went down after the log was written, so unflushed pages may be lost.
    may_have_lost_writes: bool = False
    # Transaction ends from here on may still be truncated; None means from the log start on.
    high_watermark: int | None = None


def lay_out(log: OpenLog) -> File | None:
    """Make the directory of a log that there never was, and its first files; in a worker.

    Returns the file to flush. Raises OSError."""
    disk = log.home.disk
    disk.make_directory(log.directory)
    for suffix in (LOG, OFFSET_INDEX, TIME_INDEX):
        disk.open(join(log.directory, segment_name(0, suffix)), create=True)
    if log.topic_id is None:
        return None
    # Not in use yet, so the file need not be replaced atomically.
    metadata = disk.open(join(log.directory, PARTITION_METADATA), create=True)
    metadata.append([encode_partition_metadata(log.topic_id)])
    return metadata


def start_log(log: OpenLog) -> None:
    """Begin a log that was laid out just now: it becomes what ``load_log`` makes of such files."""
    assert not log.segments
    segment = Segment(log.home, log.directory, 0, log.settings.index_interval_bytes)
    log.set_segments([segment])
    log.names_changed += 1
    log.observer.load_leader_epochs(log.saved_leader_epochs)
    log.observer.reset()
    log.observer.truncated(log.log_end_offset)
    log.observer.log_start_moved(log.log_start_offset)
    log.start_clock(segment, log.home.clock.now_ms())


async def load_log(log: OpenLog, known: Known) -> int:
    """Load a new log from its directory; returns how many bytes were scanned.

    Raises CorruptLogError if it is damaged, leaving the files as they are; OSError,
    KafkaError(KAFKA_STORAGE_ERROR)."""
    disk, offload = log.home.disk, log.home.offload
    names = await tidy_directory(disk, log.directory)
    log.keeps_messages = KEPT_FORMAT in names
    if known.clean is None and not log.keeps_messages:
        # A broker of this kind leaves none behind.
        names = await raise_old_segments(disk, offload, log.directory, names)
    knows_epochs = await offload.run(_open_files, log, names, known)
    if not knows_epochs and log.size_bytes:
        # Only the batches have the epochs then, so all are read and no snapshot may skip them.
        await remove_snapshots_after(log, -1)
        known = known._replace(clean=None)
    is_clean = known.clean is not None and await offload.run(_load_clean, log, known)
    scanned_bytes = 0
    if not is_clean:
        scanned_bytes = await _recover(log, known)
    if log.log_end_offset < log.log_start_offset:
        await _start_at_log_start(log)
    elif number := log.segment_number(log.log_start_offset):
        # Deleted before the crash, but not all of their files.
        given_up, kept = log.segments[:number], log.segments[number:]
        log.set_segments(kept)
        await bury_segments(log, given_up)
    log.observer.truncated(log.log_end_offset)
    log.observer.log_start_moved(log.log_start_offset)
    await _prune_snapshots(log)
    await _replace_indexes(log, names)
    for segment in log.segments:
        # Opened for loading only: not all of a thousand logs are in use at once.
        segment.close_file()
    log.start_clock(log.active, log.home.clock.now_ms())
    return scanned_bytes


def _open_files(log: OpenLog, names: list[str], known: Known) -> bool:
    """Find segments, snapshots, topic id and leader epochs; True if the epochs are known."""
    disk = log.home.disk
    parsed = sorted(found for name in names if (found := parse_segment_name(name)) is not None)
    base_offsets = [base_offset for base_offset, suffix in parsed if suffix == LOG]
    log.snapshot_offsets = [offset for offset, suffix in parsed if suffix == SNAPSHOT]
    first_offset = base_offsets[0] if base_offsets else 0
    log.log_start_offset = max(known.log_start_offset or 0, first_offset)
    if base_offsets:
        segments = [_closed_segment(log, base_offset) for base_offset in base_offsets]
        for segment, following in pairwise(segments):
            segment.next_offset = following.base_offset
        log.set_segments(segments)
    else:
        log.set_segments([log.new_segment(log.log_start_offset, 0)])
    log.has_aborted = any(suffix == TXN_INDEX for _, suffix in parsed)
    topic_id = decode_partition_metadata(read_file(disk, join(log.directory, PARTITION_METADATA)))
    log.topic_id = topic_id or log.topic_id
    epochs = decode_leader_epochs(read_file(disk, join(log.directory, LEADER_EPOCHS)))
    log.saved_leader_epochs = epochs or []
    log.observer.load_leader_epochs(log.saved_leader_epochs)
    return epochs is not None


def _closed_segment(log: OpenLog, base_offset: int) -> Segment:
    """A segment on the disk, of which only the size is loaded."""
    interval_bytes = log.settings.index_interval_bytes
    segment = Segment(log.home, log.directory, base_offset, interval_bytes)
    segment.size_bytes = log.home.disk.open(segment.path).size_bytes
    segment.max_timestamp = None
    segment.indexes.forget()
    segment.is_used = False
    return segment


def _load_clean(log: OpenLog, known: Known) -> bool:
    """Load the log by its clean mark; False if they differ, and recovery must run."""
    active, clean = log.active, known.clean
    assert clean is not None
    if (active.base_offset, active.size_bytes) != clean[1:3]:
        return False
    if _spoiled_transactions(log) or _has_lost_transactions(log, clean):
        return False
    try:
        end_offset = resume_segment(active)
    except CorruptLogError:
        return False
    if active.size_bytes and end_offset != clean.log_end_offset:
        return False
    log.log_end_offset = log.recovery_point = clean.log_end_offset
    active.next_offset = clean.log_end_offset
    for segment in log.segments:
        segment.synced_bytes = segment.size_bytes
    settled_offset = _settled_offset(log, known)
    offset = load_newest_snapshot(log, log.log_end_offset)
    if holds_marker(unsettled_parts(log, settled_offset, offset)):
        offset = load_newest_snapshot(log, settled_offset)
    for segment in log.segments[log.segment_number(offset) :]:
        place = locate(segment, offset) if segment.size_bytes else None
        if place is not None:
            replay_segment(log, segment, place.position)
    return True


def _settled_offset(log: OpenLog, known: Known) -> int:
    return log.log_start_offset if known.high_watermark is None else known.high_watermark


def _spoiled_transactions(log: OpenLog) -> list[Segment]:
    return [segment for segment in log.segments if segment.transactions.load() is None]


def count_aborted(log: OpenLog) -> int:
    """The number of entries in the transaction indexes, for the clean mark; -1 on a read error."""
    if not log.has_aborted:
        return 0
    try:
        return sum(len(segment.transactions.load() or ()) for segment in log.segments)
    except OSError:
        return -1


def _has_lost_transactions(log: OpenLog, clean: CleanLog | None) -> bool:
    """Whether indexes counted in the mark are lost (hazard T-18).

    Without them, read_committed consumers would receive aborted records."""
    if clean is None or clean.aborted_count < 0:
        return False
    found = sum(len(segment.transactions.load() or ()) for segment in log.segments)
    return found != clean.aborted_count


async def _recover(log: OpenLog, known: Known) -> int:
    disk, offload = log.home.disk, log.home.offload
    recovery_point = known.recovery_point
    if recovery_point is None:
        recovery_point = log.log_start_offset
    promised = recovery_point
    for segment in _spoiled_transactions(log):
        # Its entries are rebuilt from the markers.
        recovery_point = min(recovery_point, segment.base_offset)
    if _has_lost_transactions(log, known.clean):
        recovery_point = log.segments[0].base_offset
    log.recovery_point = max(recovery_point, log.segments[0].base_offset)
    # A snapshot above may contain records that are about to be cut.
    await remove_snapshots_after(log, log.recovery_point)
    settled_offset = _settled_offset(log, known)
    snapshot_offset = load_newest_snapshot(log, log.recovery_point)
    if settled_offset < snapshot_offset and log.observer.has_seen_markers:
        # The indexes are not verified yet, so the markers in between cannot be looked up (T-17).
        snapshot_offset = load_newest_snapshot(log, settled_offset)
    scanner = Scanner(log, snapshot_offset)
    finding = await offload.run(scanner.run)
    if finding is not None:
        if known.cut_damage:
            await set_aside(log, finding, f"{finding.problem}, and the operator wants it cut")
        elif not await offload.run(is_torn, log, finding, promised):
            lost = known.may_have_lost_writes and promised <= finding.next_offset
            if not lost or not await offload.run(shows_lost_writes, log, finding):
                raise damage(log, finding)
            await set_aside(log, finding, "a loss of power has left a hole in what was not flushed")
        later = cut_torn_end(log, finding)
        await bury_segments(log, reversed(later))
        # Durable before anything is appended, or a second crash could leave a mix of both.
        await log.active.file.fsync()
        for file in log.active.indexes.cut_files():
            await file.fsync()
        await disk.fsync_directory(log.directory)
    log.has_aborted = any(segment.transactions.load() for segment in log.segments)
    log.log_end_offset = max(scanner.next_offset, log.active.base_offset)
    log.active.next_offset = log.log_end_offset
    for segment in log.segments:
        if segment.next_offset <= log.recovery_point and not segment.is_active:
            segment.synced_bytes = segment.size_bytes
    # Not raised to the first segment: names of deleted segments before it may still exist.
    log.recovery_point = min(recovery_point, log.log_end_offset)
    # It is unknown which names the previous process had made durable.
    log.names_changed += 1
    return scanner.scanned_bytes


async def _start_at_log_start(log: OpenLog) -> None:
    """Restart an empty log at the log start: all remaining records are below it."""
    dropped = log.segments
    await bury_segments(log, reversed(dropped))
    await remove_snapshots_after(log, -1)
    log.observer.reset()
    log.set_segments([log.new_segment(log.log_start_offset, 0)])
    log.log_end_offset = log.recovery_point = log.log_start_offset


async def _replace_indexes(log: OpenLog, names: list[str]) -> None:
    """Rebuild missing indexes now, in a worker, instead of at the first read."""
    there = set(names)
    for segment in log.segments[:-1]:
        for suffix in (OFFSET_INDEX, TIME_INDEX):
            if segment_name(segment.base_offset, suffix) not in there:
                await log.home.offload.run(segment.load_indexes)


async def _prune_snapshots(log: OpenLog) -> None:
    """Keep the snapshots at segment starts and the newest; each clean stop leaves one."""
    keep = {segment.base_offset for segment in log.segments}
    keep.update(log.snapshot_offsets[-1:])
    for offset in [number for number in log.snapshot_offsets if number not in keep]:
        await log.home.disk.unlink(log.snapshot_path(offset))
        log.snapshot_offsets.remove(offset)
