"""Finds damage in a log without changing it, for ``ottla log repair``.

Applies the rules of recovery (see ``recovery.py``) from the log's first byte on. Reports the
position of the first damage, whether a start would cut it off as a torn end, and the records behind
it, which a repair loses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.recovery.recovery import find_batch, is_old_message
from ottla.broker.log.storage.names import KEPT_FORMAT, LOG, join, parse_segment_name, segment_name
from ottla.broker.log.storage.scan import BatchScan
from ottla.broker.log.storage.settings import INT32_MAX
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import MAGIC, check_crc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ports import Disk, File
    from ottla.protocol.records.batch import RecordBatch


class Damage(NamedTuple):
    """The first damage, and the loss if the log is cut there.

    ``base_offset`` is that of its segment. ``lost_batches`` and ``lost_records`` count what is
    still readable behind it; ``last_offset`` is that of the last such record, -1 if there is none.
    ``is_torn``: it is above the recovery point and nothing readable follows, so a start cuts it
    off."""

    path: str
    base_offset: int
    position: int
    offset: int
    problem: str
    lost_bytes: int
    lost_batches: int
    lost_records: int
    last_offset: int
    is_torn: bool


async def examine(disk: Disk, directory: str, recovery_point: int) -> Damage | None:
    """The first damage of a partition's log; None if there is none. Changes nothing.

    Raises OSError."""
    names = await disk.scan(directory)
    parsed = sorted(found for name in names if (found := parse_segment_name(name)) is not None)
    base_offsets = [base_offset for base_offset, suffix in parsed if suffix == LOG]
    files = [disk.open(join(directory, segment_name(base, LOG))) for base in base_offsets]
    examiner = _Examiner(files, base_offsets, recovery_point)
    examiner.keeps_messages = KEPT_FORMAT in names
    return examiner.run()


class _Examiner:
    """One pass over all segments."""

    def __init__(
        self, files: Sequence[File], base_offsets: Sequence[int], recovery_point: int
    ) -> None:
        self._files = files
        self._base_offsets = base_offsets
        self._recovery_point = recovery_point
        self._next_offset = base_offsets[0] if base_offsets else 0
        self._leader_epoch = -1
        # As in OpenLog.
        self.keeps_messages = False

    def run(self) -> Damage | None:
        for number, file in enumerate(self._files):
            base_offset = self._base_offsets[number]
            missing = base_offset - self._next_offset
            # Compaction leaves gaps, but not above the recovery point.
            if number and 0 < missing <= INT32_MAX and base_offset > self._recovery_point:
                problem = f"there is nothing up to offset {base_offset}"
                return self._damage(number - 1, self._files[number - 1].size_bytes, problem)
            limit_offset = base_offset + INT32_MAX + 1
            if number + 1 < len(self._files):
                limit_offset = min(limit_offset, self._base_offsets[number + 1])
            scan = BatchScan(file, 0, file.size_bytes)
            for position, batch in scan:
                problem = self._problem(batch, limit_offset)
                if problem:
                    return self._damage(number, position, problem)
                self._next_offset = batch.next_offset
                self._leader_epoch = max(self._leader_epoch, batch.leader_epoch)
            if scan.problem is not None:
                return self._damage(number, scan.position, scan.problem)
        return None

    def _problem(self, batch: RecordBatch, limit_offset: int) -> str:
        if not check_crc(batch):
            return "the checksum does not match"
        if batch.magic < MAGIC and not self.keeps_messages:
            return f"unknown magic {batch.magic}"
        if batch.base_offset < self._next_offset:
            return f"offset {batch.base_offset} comes after {self._next_offset - 1}"
        if batch.last_offset >= limit_offset:
            return f"offset {batch.last_offset} is beyond the segment's last, {limit_offset - 1}"
        if 0 <= batch.leader_epoch < self._leader_epoch:
            return f"leader epoch {batch.leader_epoch} comes after {self._leader_epoch}"
        return ""

    def _damage(self, number: int, position: int, problem: str) -> Damage:
        batches = records = lost_bytes = 0
        last_offset = -1
        start = position
        for file in self._files[number:]:
            lost_bytes += file.size_bytes - start
            for batch_count, record_count, offset in _readable(file, start, self._next_offset):
                batches += batch_count
                records += record_count
                last_offset = max(last_offset, offset)
            start = 0
        return Damage(
            self._files[number].path,
            self._base_offsets[number],
            position,
            self._next_offset,
            problem,
            lost_bytes,
            batches,
            records,
            last_offset,
            is_torn=batches == 0
            and self._next_offset >= self._recovery_point
            and not is_old_message(self._files[number], position, self._files[number].size_bytes),
        )


def _readable(file: File, start: int, offset_min: int) -> list[tuple[int, int, int]]:
    """(batches, records, last offset) of each readable range from there on."""
    found: list[tuple[int, int, int]] = []
    position = find_batch(file, start, file.size_bytes, offset_min)
    while position is not None:
        batches, records, last_offset = 0, 0, -1
        scan = BatchScan(file, position, file.size_bytes)
        end = position
        for at, batch in scan:
            if not check_crc(batch):
                break
            batches += 1
            records += batch.record_count
            last_offset = batch.last_offset
            end = at + batch.size_bytes
        found.append((batches, records, last_offset))
        assert end > position
        position = find_batch(file, end, file.size_bytes, offset_min)
    return found
