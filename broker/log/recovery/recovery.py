"""Recovers a log after an unclean stop: scans it, and tells a torn end from damage.

A power cut may leave the last write incomplete; such a torn end is cut off. An error with valid
batches behind it, or below the recovery point, is not a torn end: cutting there would lose
acknowledged records, so unless lost pages explain it (see ``power_loss.py``) the log is reported as
damaged and left unchanged (hazards S-01 to S-03, S-06). Runs in a worker; the log is not shared
yet.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from ottla.broker.log.replay import replay_segment
from ottla.broker.log.resuming import start_of_scan
from ottla.broker.log.storage.scan import LENGTH_MIN, BatchScan, place_at
from ottla.broker.log.storage.settings import INT32_MAX
from ottla.broker.log.storage.txn_index import AbortedTransaction
from ottla.protocol.errors import CorruptLogError, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import HEADER_BYTES, LENGTH_END, MAGIC, check_crc, parse_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.log.open_log import OpenLog
    from ottla.broker.log.storage.segment import Segment
    from ottla.protocol.ports import File
    from ottla.protocol.records.batch import RecordBatch

_SEARCH_BYTES = 4 * 1024 * 1024
_HEAD = struct.Struct(">qiiB")
_MAGIC_BYTE = bytes([MAGIC])
_MAGIC_POSITION = 16
# Offset, size; then what the size counts: checksum, magic, attributes, key and value.
_OLD_HEAD = struct.Struct(">qiIB")
_OLD_SIZE_END = 12
_OLD_BYTES_MIN = 14


class LogDamage(NamedTuple):
    """The first damage, and the state of the scan up to there."""

    number: int
    position: int
    next_offset: int
    problem: str
    # A valid batch at or above this offset cannot be a leftover of older data.
    later_from: int


class Scanner:
    """One pass over the segments from the recovery point on; feeds indexes and observer."""

    def __init__(self, log: OpenLog, snapshot_offset: int) -> None:
        self.log = log
        self.next_offset = 0
        self.scanned_bytes = 0
        # The first missing offset. Compaction leaves gaps, but so does a flipped bit in a base
        # offset, which no checksum covers: the batches after it then seem to be out of order.
        self._gap_offset: int | None = None
        self._leader_epoch = -1
        # The observer's snapshot covers everything before this.
        self._observe_from = snapshot_offset

    def run(self) -> LogDamage | None:
        """Scan to the end; None if there is no damage. Raises OSError, CorruptLogError."""
        log = self.log
        first = log.segment_number(log.recovery_point)
        self.next_offset = log.segments[first].base_offset
        self._catch_up(first)
        for number in range(first, len(log.segments)):
            segment = log.segments[number]
            if number == first:
                start = start_of_scan(segment, log.recovery_point)
            else:
                if 0 < segment.base_offset - self.next_offset <= INT32_MAX:
                    # Segments are rolled without a gap: the end of the previous one is lost.
                    problem = f"there is nothing up to offset {segment.base_offset}"
                    return self._finding(number - 1, log.segments[number - 1].size_bytes, problem)
                start = 0
                segment.start_scan()
            finding = self._scan(number, start)
            if finding is not None:
                return finding
            if number + 1 < len(log.segments):
                segment.seal()
                log.take_snapshot(log.segments[number + 1].base_offset)
        return None

    def _catch_up(self, first: int) -> None:
        """Feed the observer the batches between its snapshot and the first segment to scan."""
        log = self.log
        for segment in log.segments[log.segment_number(self._observe_from) : first]:
            if segment.size_bytes:
                replay_segment(log, segment, 0, from_offset=self._observe_from)

    def _scan(self, number: int, start: int) -> LogDamage | None:
        segment = self.log.segments[number]
        limit_offset = segment.next_offset if number + 1 < len(self.log.segments) else None
        start_offset = segment.base_offset
        if start:
            start_offset = place_at(segment.file, start, segment.size_bytes).base_offset
            self.next_offset = start_offset
        if self._observe_from < start_offset and start:
            replay_segment(self.log, segment, 0, start, from_offset=self._observe_from)
        segment.transactions.truncate(max(start_offset, self._observe_from))
        reach = segment.base_offset + INT32_MAX
        limit_offset = reach + 1 if limit_offset is None else min(limit_offset, reach + 1)
        scan = BatchScan(segment.file, start, segment.size_bytes)
        for position, batch in scan:
            last_offset = batch.base_offset + batch.last_offset_delta
            if (
                batch.base_offset < self.next_offset
                or (batch.magic < MAGIC and not self.log.keeps_messages)
                or last_offset >= limit_offset
                or 0 <= batch.leader_epoch < self._leader_epoch
                or not check_crc(batch)
            ):
                return self._finding(number, position, self._problem(batch, limit_offset))
            segment.account(batch, position)
            if batch.base_offset > self.next_offset and self._gap_offset is None:
                self._gap_offset = self.next_offset
            self.next_offset = last_offset + 1
            if batch.leader_epoch > self._leader_epoch:
                self._leader_epoch = batch.leader_epoch
            if last_offset >= self._observe_from:
                aborted = self.log.observer.observe(batch)
                if aborted is not None:
                    segment.transactions.append(AbortedTransaction(*aborted))
        self.scanned_bytes += scan.position - start
        if scan.problem is not None:
            return self._finding(number, scan.position, scan.problem)
        return None

    def _problem(self, batch: RecordBatch, limit_offset: int) -> str:
        """Why the batch is not valid at its position."""
        if not check_crc(batch):
            return "the checksum does not match"
        if batch.magic < MAGIC and not self.log.keeps_messages:
            return f"there is a message of format {batch.magic}"
        if batch.base_offset < self.next_offset:
            return f"offset {batch.base_offset} comes after {self.next_offset - 1}"
        if batch.last_offset >= limit_offset:
            return f"offset {batch.last_offset} is beyond the segment's last, {limit_offset - 1}"
        return f"leader epoch {batch.leader_epoch} comes after {self._leader_epoch}"

    def _finding(self, number: int, position: int, problem: str) -> LogDamage:
        later_from = self.next_offset if self._gap_offset is None else self._gap_offset
        return LogDamage(number, position, self.next_offset, problem, later_from)


def is_torn(log: OpenLog, finding: LogDamage, promised_offset: int) -> bool:
    """Whether the damage may be cut off: no valid batch follows, and no flushed one is missing.

    Everything below ``promised_offset`` was flushed."""
    if finding.next_offset < promised_offset:
        return False
    segment = log.segments[finding.number]
    position, offset_min = finding.position, finding.later_from
    if is_old_message(segment.file, position, segment.size_bytes):
        return False
    if find_valid(log, segment, position, offset_min) is not None:
        return False
    return all(
        find_valid(log, later, 0, offset_min) is None
        for later in log.segments[finding.number + 1 :]
    )


def find_valid(log: OpenLog, segment: Segment, start: int, offset_min: int) -> int | None:
    """As ``find_batch``, also for messages of format 1 where the log keeps them."""
    found = find_batch(segment.file, start, segment.size_bytes, offset_min)
    if not log.keeps_messages:
        return found
    kept = _find_kept()(segment.file, start, segment.size_bytes, offset_min)
    return kept if found is None else found if kept is None else min(found, kept)


def _find_kept() -> Callable[[File, int, int, int], int | None]:
    """Loaded for damaged logs that keep messages only."""
    from ottla.broker.log.recovery.kept_search import find_kept

    return find_kept


def find_batch(file: File, start: int, end: int, offset_min: int) -> int | None:
    """The position of the first complete, valid batch from ``offset_min`` on; None without one."""
    position = start
    while end - position >= HEADER_BYTES:
        chunk = file.pread(min(_SEARCH_BYTES, end - position), position)
        at = chunk.find(_MAGIC_BYTE, _MAGIC_POSITION)
        while at >= 0:
            head = at - _MAGIC_POSITION
            base_offset, length, _, _ = _HEAD.unpack_from(chunk, head)
            if (
                offset_min <= base_offset <= offset_min + INT32_MAX
                and length >= LENGTH_MIN
                and position + head + LENGTH_END + length <= end
                and _is_valid(file.pread(LENGTH_END + length, position + head))
            ):
                return position + head
            at = chunk.find(_MAGIC_BYTE, at + 1)
        # Headers at the end of the chunk have their magic byte in the next one.
        position += max(1, len(chunk) - _MAGIC_POSITION)
    return None


def is_old_message(file: File, position: int, end: int) -> bool:
    """Whether a complete message of magic 0 or 1 starts there, as Kafka before 0.11 wrote them.

    Segments that begin so are rewritten before (old_segments.py); behind batches it cannot be
    served, but the operator needs the log unchanged. Its checksum is a CRC-32 of everything from
    the magic on."""
    head = file.pread(min(_OLD_HEAD.size, end - position), position)
    if len(head) < _OLD_HEAD.size:
        return False
    _, size_bytes, checksum, magic = _OLD_HEAD.unpack(head)
    whole_bytes = _OLD_SIZE_END + size_bytes
    if magic >= MAGIC or size_bytes < _OLD_BYTES_MIN or position + whole_bytes > end:
        return False
    content = file.pread(whole_bytes - _MAGIC_POSITION, position + _MAGIC_POSITION)
    return bool(zlib.crc32(content) == checksum)


def _is_valid(content: bytes) -> bool:
    try:
        return check_crc(parse_batch(content))
    except KafkaError:
        return False


def cut_torn_end(log: OpenLog, finding: LogDamage) -> list[Segment]:
    """Cut the file at the damage; returns the later segments, which hold nothing valid."""
    segment = log.segments[finding.number]
    later = list(log.segments[finding.number + 1 :])
    segment.cut(finding.position, max(finding.next_offset, segment.base_offset))
    segment.file.truncate(finding.position)
    log.set_segments(log.segments[: finding.number + 1])
    return later


def damage(log: OpenLog, finding: LogDamage) -> CorruptLogError:
    """The error for a log that must not be cut."""
    segment = log.segments[finding.number]
    if is_old_message(segment.file, finding.position, segment.size_bytes):
        return CorruptLogError(
            f"{segment.path} holds messages of a Kafka before 0.11 from position "
            f"{finding.position} on, which are not served here; nothing was changed"
        )
    return CorruptLogError(
        f"{segment.path} is damaged at position {finding.position}, offset "
        f"{finding.next_offset}: {finding.problem}; valid records follow it, or "
        "acknowledged records are missing"
    )
