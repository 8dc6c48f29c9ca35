"""Recognises holes that a power loss left above the recovery point.

The kernel writes pages back in any order, and file systems may store the larger size first: records
appended since the last flush may come back with pages of zeros, or without their end. Nothing from
the first hole on was flushed, so the log may end there; but the rest is copied to a file, because
records may be acknowledged before a flush. Any other damage is not explained by a power loss and is
left alone (hazards S-01 to S-03).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.log.recovery.recovery import find_valid
from ottla.broker.log.storage.health import is_passing, storage_error
from ottla.broker.log.storage.names import DAMAGED, join, segment_name
from ottla.broker.log.storage.scan import BatchScan

if TYPE_CHECKING:
    from ottla.broker.log.open_log import OpenLog
    from ottla.broker.log.recovery.recovery import LogDamage
    from ottla.broker.log.storage.segment import Segment
    from ottla.protocol.ports import Disk, File

logger = logging.getLogger("ottla.log")

# The smallest unit that a device writes.
SECTOR_BYTES = 512
_CHUNK_BYTES = 2048 * SECTOR_BYTES
_ZEROS = bytes(SECTOR_BYTES)
# A valid batch may begin with this many zeros: offset, length and leader epoch, if those are 0.
_ZERO_HEAD_BYTES = 16
_OFFSET_BYTES = 8


def shows_lost_writes(log: OpenLog, finding: LogDamage) -> bool:
    """Whether the damage looks like pages, or an end, that never reached the disk.

    A flipped bit does not, so bit rot is detected even after a power loss."""
    segment = log.segments[finding.number]
    file, start, size_bytes = segment.file, finding.position, segment.size_bytes
    end = find_valid(log, segment, start, finding.later_from)
    if end is None:
        # The valid batches are in later files: this one has lost its end.
        return _is_cut_short(file, start, size_bytes) or has_lost_sector(
            file, start, size_bytes, finding.next_offset
        )
    return has_lost_sector(file, start, end, finding.next_offset)


def _is_cut_short(file: File, start: int, size_bytes: int) -> bool:
    """Whether the file ends there, or within the batch that begins there."""
    scan = BatchScan(file, start, size_bytes)
    return start == size_bytes or (next(iter(scan), None) is None and scan.is_cut_short)


def has_lost_sector(file: File, start: int, end: int, next_offset: int) -> bool:
    """Whether a sector between the start and the end of the damage reads as zeros.

    Of the sector in which the bad batch starts, only the rest counts: its beginning was flushed
    before. ``next_offset`` is the base offset that the bad batch should have."""
    head_end = min(-(-(start + 1) // SECTOR_BYTES) * SECTOR_BYTES, end)
    head = file.pread(head_end - start, start)
    expected = next_offset.to_bytes(_OFFSET_BYTES, "big")[: len(head)]
    if (
        not any(head)
        and (len(head) > _OFFSET_BYTES or any(expected))
        and _reaches_boundary(head_end, end, file.size_bytes)
    ):
        return True
    position = head_end
    while position < end:
        chunk = file.pread(min(_CHUNK_BYTES, end - position), position)
        for at in range(0, len(chunk), SECTOR_BYTES):
            sector = chunk[at : at + SECTOR_BYTES]
            if sector == _ZEROS[: len(sector)] and _reaches_boundary(
                position + at + len(sector), end, file.size_bytes
            ):
                return True
        position += len(chunk)
    return False


def _reaches_boundary(position: int, end: int, size_bytes: int) -> bool:
    """Whether zeros up to that position may be the rest of a lost sector.

    Zeros of the last sector may continue in the zeros that begin the next valid batch."""
    rest = -position % SECTOR_BYTES
    return rest == 0 or position == size_bytes or (position == end and rest <= _ZERO_HEAD_BYTES)


async def set_aside(log: OpenLog, finding: LogDamage, why: str) -> None:
    """Copy everything from the damage on into a file beside the log, durably.

    Raises OSError; KafkaError(KAFKA_STORAGE_ERROR) on a full disk, with nothing changed."""
    disk, offload = log.home.disk, log.home.offload
    path = _unused_path(disk, join(log.directory, segment_name(finding.next_offset, DAMAGED)))
    try:
        target = disk.open(path, create=True)
        position = finding.position
        for segment in log.segments[finding.number :]:
            await offload.run(_copy, segment, position, target)
            position = 0
        await target.fsync()
        await disk.fsync_directory(log.directory)
    except OSError as error:
        if not is_passing(error):
            raise
        await disk.unlink(path)
        what = f"{log.partition} must be cut at offset {finding.next_offset}: {why}"
        raise storage_error(f"{what}; cannot write {path}: {error}") from error
    logger.warning(
        "%s ends at offset %d now: %s; what was behind it, %d bytes, is kept in %s",
        log.partition,
        finding.next_offset,
        why,
        target.size_bytes,
        path,
    )


def _unused_path(disk: Disk, path: str) -> str:
    """An unused path, so that no earlier copy is overwritten."""
    number = 0
    found = path
    while disk.exists(found):
        number += 1
        found = f"{path}.{number}"
    return found


def _copy(segment: Segment, start: int, target: File) -> None:
    source = segment.file
    for position in range(start, segment.size_bytes, _CHUNK_BYTES):
        target.append([source.pread(min(_CHUNK_BYTES, segment.size_bytes - position), position)])
