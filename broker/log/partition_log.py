"""The log of one partition: append, read, and a method for each operation of other files.

It knows bytes, not replication: batches arrive validated and stamped, and the reader passes the
upper bound. Appending and reading never wait. HOT: ``append`` and ``read``.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NoReturn

from ottla.broker.log.deletion import delete_log_before, delete_segments
from ottla.broker.log.flushing import close_log, flush_log, save_leader_epochs
from ottla.broker.log.open_log import OpenLog
from ottla.broker.log.segment_view import SegmentView, view_segments
from ottla.broker.log.storage.health import is_out_of_descriptors, is_passing
from ottla.broker.log.storage.scan import BatchPosition
from ottla.broker.log.storage.settings import INT32_MAX, INT64_MAX
from ottla.broker.log.storage.slices import LogRead, slice_batch, slice_segment
from ottla.broker.log.storage.txn_index import AbortedTransaction, touching
from ottla.broker.log.timestamps import TimestampedOffset, find_largest, find_timestamp
from ottla.broker.log.truncation import restart_log, truncate_log
from ottla.protocol.errors import CorruptLogError, ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.log.storage.segment import Segment
    from ottla.protocol.records.batch import RecordBatch


def _always() -> bool:
    return True


class PartitionLog(OpenLog):
    """The log of one partition, which is its only appender; created by a data directory."""

    # -- appending ---------------------------------------------------------------------------

    def append(self, batches: Sequence[RecordBatch], now_ms: float) -> None:
        """Append stamped batches with a single write to the page cache.

        Views and buffers of the batches must agree. All batches of a call go to the same segment.
        ``now_ms`` is monotonic.

        Raises KafkaError(KAFKA_STORAGE_ERROR) with nothing appended: on a full disk the next call
        may succeed; after any other I/O error the whole directory is offline (R-29). Raises
        KafkaError(MESSAGE_TOO_LARGE) if no segment can hold the batches, and
        KafkaError(INVALID_RECORD) if base offsets do not ascend from the log's end."""
        if self.refusal is not None or self.home.health.failure is not None:
            self.ensure_usable()
        next_offset = self.log_end_offset
        size_bytes = 0
        for batch in batches:
            if batch.base_offset < next_offset:
                self._refuse_order(batch, next_offset)
            next_offset = batch.base_offset + batch.last_offset_delta + 1
            size_bytes += batch.size_bytes
        segment = self.segments[-1]
        if self._must_roll(segment, batches, size_bytes, now_ms):
            segment = self._roll_for(batches, size_bytes, now_ms)
        try:
            segment.append(batches)
        except OSError as error:
            raise self._append_failed(segment, error) from error
        self.log_end_offset = next_offset
        if self.unflushed_since_ms is None:
            self.unflushed_since_ms = now_ms
            if self.settings.asks_for_flushes:
                self.home.to_flush[self] = None

    def _must_roll(
        self, segment: Segment, batches: Sequence[RecordBatch], size_bytes: int, now_ms: float
    ) -> bool:
        """Whether to roll, by Kafka's rules; the only place that decides it (hazard S-16)."""
        settings = self.settings
        last = batches[-1]
        if last.base_offset + last.last_offset_delta - segment.base_offset > INT32_MAX:
            return True
        filled_bytes = segment.size_bytes
        if filled_bytes == 0:
            return False
        if filled_bytes + size_bytes > settings.segment_bytes:
            return True
        # By record time if there is one: a replica that copies old data rolls where the leader did.
        first = segment.first_timestamp
        if first is not None and first >= 0:
            waited_ms: float = last.max_timestamp - first
        else:
            waited_ms = now_ms - segment.created_ms
        if waited_ms > settings.segment_ms - segment.jitter_ms:
            return True
        offsets = segment.indexes.offsets
        return offsets is not None and len(offsets.positions) >= settings.index_entries_max

    def _roll_for(self, batches: Sequence[RecordBatch], size_bytes: int, now_ms: float) -> Segment:
        first_offset, last_offset = batches[0].base_offset, batches[-1].last_offset
        if size_bytes > INT32_MAX or last_offset - first_offset > INT32_MAX:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{size_bytes} bytes fit no segment")
        # Without a gap to the previous segment, so that recovery notices if its end is lost.
        base_offset = self.active.next_offset
        if last_offset - base_offset > INT32_MAX:
            base_offset = first_offset
        try:
            return self.roll(base_offset, now_ms)
        except OSError as error:
            what = f"cannot roll the log of {self.partition}"
            raise self.home.health.judge(what, error) from error

    def _append_failed(self, segment: Segment, error: OSError) -> KafkaError:
        """Cut off a partial batch, or latch: no byte may follow a torn one (R-29)."""
        what = f"cannot append to {segment.path}"
        # Without a descriptor the file was not opened, and a truncation would fail as well.
        if is_passing(error) and not is_out_of_descriptors(error):
            try:
                segment.file.truncate(segment.size_bytes)
            except OSError as second:
                return self.home.health.latch(what, second)
        return self.home.health.judge(what, error)

    def _refuse_order(self, batch: RecordBatch, next_offset: int) -> NoReturn:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"batch at offset {batch.base_offset} cannot follow offset {next_offset - 1}",
        )

    # -- reading -----------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, upper_bound_offset: int, at_least_one: bool
    ) -> LogRead:
        """Whole batches of one segment from the one that holds ``offset`` on.

        They end before ``upper_bound_offset`` and within ``max_bytes``; with ``at_least_one``, the
        first batch may be larger. Offsets removed by compaction are skipped. The region is None if
        there is nothing below the bound, or nothing that fits.

        Raises KafkaError(OFFSET_OUT_OF_RANGE) below the log start or beyond the log end,
        KafkaError(KAFKA_STORAGE_ERROR), CorruptLogError."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.partition} is outside "
                f"{self.log_start_offset}..{self.log_end_offset}",
            )
        # A comparison: min() takes several times as long.
        if upper_bound_offset > self.log_end_offset:
            upper_bound_offset = self.log_end_offset
        if offset >= upper_bound_offset:
            return LogRead(None, offset)
        segments = self.segments
        segment = segments[-1]
        number = len(segments) - 1
        if offset < segment.base_offset:
            number = self.segment_number(offset)
        try:
            for segment in segments[number:]:
                if segment.base_offset >= upper_bound_offset:
                    break
                found = slice_segment(segment, offset, max_bytes, upper_bound_offset)
                if type(found) is LogRead:
                    return found
                if type(found) is BatchPosition:
                    return slice_batch(segment, found) if at_least_one else LogRead(None, offset)
        except OSError as error:
            raise self.home.health.judge(f"cannot read {segment.path}", error) from error
        return LogRead(None, offset)

    def aborted_transactions(
        self, offset: int, upper_bound_offset: int
    ) -> list[AbortedTransaction]:
        """Aborted transactions with records in [offset, upper bound), for read_committed.

        Raises CorruptLogError, KafkaError(KAFKA_STORAGE_ERROR)."""
        found: list[AbortedTransaction] = []
        if not self.has_aborted:
            return found
        try:
            for segment in self.segments[self.segment_number(offset) :]:
                entries, is_complete = touching(
                    segment.transactions.entries, offset, upper_bound_offset
                )
                found += entries
                if is_complete:
                    break
        except OSError as error:
            what = f"cannot read the aborted transactions of {self.partition}"
            raise self.home.health.judge(what, error) from error
        return found

    def append_aborted(self, entry: AbortedTransaction) -> None:
        """Add to the transaction index, right after the abort marker. Raises KafkaError."""
        try:
            self.has_aborted = True
            if not self.active.transactions.entries:
                # Without a durable name the file is lost in a power cut, and aborted records would
                # be shown (hazard T-18).
                self.names_changed += 1
            self.active.transactions.append(entry)
        except (OSError, CorruptLogError) as error:
            what = f"cannot append to the transaction index of {self.partition}"
            cause = error if isinstance(error, OSError) else OSError(errno.EIO, str(error))
            raise self.home.health.latch(what, cause) from error

    async def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record at or after the timestamp; None if there is none.

        Raises CorruptLogError, KafkaError."""
        return await find_timestamp(self, timestamp)

    async def offset_of_largest_timestamp(self) -> TimestampedOffset | None:
        """The first record with the largest timestamp; None if no record has one."""
        return await find_largest(self)

    # -- background --------------------------------------------------------------------------

    def flush_is_due(self, now_ms: float) -> bool:
        """Whether a flush is due by ``flush.messages`` or ``flush.ms`` and the log is usable."""
        if self.refusal is not None or self.home.health.failure is not None:
            return False
        if self.log_end_offset - self.recovery_point >= self.settings.flush_messages:
            return True
        deadline_ms = self.flush_deadline_ms
        return deadline_ms is not None and now_ms >= deadline_ms

    @property
    def flush_deadline_ms(self) -> float | None:
        """When ``flush.ms`` requires the next flush; None without unflushed data or setting."""
        since_ms = self.unflushed_since_ms
        if since_ms is None or self.settings.flush_ms == INT64_MAX:
            return None
        if self.recovery_point >= self.log_end_offset:
            # The unflushed records were truncated.
            return None
        return since_ms + self.settings.flush_ms

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether a sealed segment waits to be flushed.

        Kafka flushes a segment when it is rolled; the housekeeping should do the same."""
        if self.refusal is not None or self.home.health.failure is not None:
            return False
        return self.recovery_point < self.segments[-1].base_offset

    @property
    def may_need_flush(self) -> bool:
        """Whether the periodic flush must check this log again."""
        if self.settings.asks_for_flushes and self.recovery_point < self.log_end_offset:
            return True
        return self.has_unflushed_segments

    async def flush(self) -> None:
        """Make everything appended before the call durable and advance the recovery point.

        Raises KafkaError(KAFKA_STORAGE_ERROR); the directory is then offline for good (S-09)."""
        await flush_log(self)

    async def flush_sealed(self) -> None:
        """Make everything before the active segment durable; cheap, as it does not grow."""
        await flush_log(self, self.active.base_offset)

    async def save_leader_epochs(self) -> None:
        """Make the leader epochs durable, which must precede serving in a new one (R-04)."""
        await save_leader_epochs(self)

    async def truncate_to(self, offset: int, may_begin: Callable[[], bool] = _always) -> int:
        """Truncate to ``offset`` and return the resulting log end offset.

        It is lower than ``offset`` if that is within a batch. Appends are refused meanwhile, and
        the observer is rebuilt. ``may_begin`` is called under the log's lock, with no await between
        its True and the refusal of appends (hazard R-07); on False nothing happens. Raises
        KafkaError(KAFKA_STORAGE_ERROR)."""
        return await truncate_log(self, offset, may_begin)

    async def truncate_fully_and_start_at(
        self, offset: int, may_begin: Callable[[], bool] = _always
    ) -> None:
        """Drop everything; the empty log then starts and ends at ``offset``."""
        await restart_log(self, offset, may_begin)

    async def delete_records_before(self, offset: int) -> int:
        """Raise the log start offset, durably (S-19), and delete the segments before it.

        Returns the log start offset, which never goes back."""
        return await delete_log_before(self, offset)

    async def delete_old_segments(
        self, policy: Callable[[Sequence[SegmentView]], int], upper_bound_offset: int
    ) -> int:
        """Delete as many of the oldest segments as the policy returns; returns how many.

        Segments that reach the upper bound (the high watermark) stay. Raises
        KafkaError(KAFKA_STORAGE_ERROR) naming a file that cannot be removed."""
        return await delete_segments(self, policy, upper_bound_offset)

    def segment_views(self) -> list[SegmentView]:
        """The facts about each segment for retention, oldest first."""
        return view_segments(self)

    async def close(self) -> bool:
        """Refuse appends from now on, save the producers and flush everything.

        False if a failed truncation left inconsistent files."""
        return await close_log(self)
