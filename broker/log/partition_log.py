"""The log of one partition: append, read, and one method per operation that other files carry out.

It knows bytes, never replication: batches arrive validated and stamped, and whoever reads says up
to which offset. Appending and reading never wait. HOT: ``append`` and ``read``.
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
    """Made by a data directory; used by one partition, whose code is its only appender."""

    # -- appending ---------------------------------------------------------------------------

    def append(self, batches: Sequence[RecordBatch], now_ms: float) -> None:
        """Write stamped batches at the end with a single write; they are in the page cache then.

        The views must show what is in their buffers, base offsets at or above the log's end. All
        batches of a call go to the same segment. ``now_ms`` is monotonic.

        Raises KafkaError(KAFKA_STORAGE_ERROR), and nothing was appended: on a full disk the next
        call may succeed, after any other I/O error the whole directory is offline (R-29).
        Raises KafkaError(MESSAGE_TOO_LARGE) for what no segment can hold, and
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
        """The single place that decides about rolling (hazard S-16); the rules are Kafka's."""
        settings = self.settings
        last = batches[-1]
        if last.base_offset + last.last_offset_delta - segment.base_offset > INT32_MAX:
            return True
        filled_bytes = segment.size_bytes
        if filled_bytes == 0:
            return False
        if filled_bytes + size_bytes > settings.segment_bytes:
            return True
        # By record time as long as there is one: a replica that copies old data cuts its
        # segments where the leader did.
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
        # Without a gap to the segment before, so that recovery notices a lost end of that one.
        base_offset = self.active.next_offset
        if last_offset - base_offset > INT32_MAX:
            base_offset = first_offset
        try:
            return self.roll(base_offset, now_ms)
        except OSError as error:
            what = f"cannot roll the log of {self.partition}"
            raise self.home.health.judge(what, error) from error

    def _append_failed(self, segment: Segment, error: OSError) -> KafkaError:
        """Leave no half batch behind, or latch: no byte may land after a torn one (R-29)."""
        what = f"cannot append to {segment.path}"
        # Without a descriptor it was not even opened, and to cut it would fail like that again.
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

        They end before ``upper_bound_offset`` and, but for a first batch that is larger when
        ``at_least_one`` is set, within ``max_bytes``. Offsets that compaction removed are passed
        over. The region is None if there is nothing below the bound, or nothing that fits.

        Raises KafkaError(OFFSET_OUT_OF_RANGE) below the log start or beyond the log end,
        KafkaError(KAFKA_STORAGE_ERROR), CorruptLogError."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.partition} is outside "
                f"{self.log_start_offset}..{self.log_end_offset}",
            )
        upper_bound_offset = min(upper_bound_offset, self.log_end_offset)
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
        """Note an abort right after its marker was appended. Raises KafkaError."""
        try:
            self.has_aborted = True
            if not self.active.transactions.entries:
                # A file whose name is not durable is gone after a power cut, and what was aborted
                # would be shown (hazard T-18).
                self.names_changed += 1
            self.active.transactions.append(entry)
        except (OSError, CorruptLogError) as error:
            what = f"cannot append to the transaction index of {self.partition}"
            cause = error if isinstance(error, OSError) else OSError(errno.EIO, str(error))
            raise self.home.health.latch(what, cause) from error

    async def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record whose timestamp reaches the given one, None if there is none.

        Raises CorruptLogError, KafkaError."""
        return await find_timestamp(self, timestamp)

    async def offset_of_largest_timestamp(self) -> TimestampedOffset | None:
        """The first record that has the largest timestamp, None in an empty log."""
        return await find_largest(self)

    # -- background --------------------------------------------------------------------------

    def flush_is_due(self, now_ms: float) -> bool:
        """Whether ``flush.messages`` or ``flush.ms`` asks for a flush by now (and one may help)."""
        if self.refusal is not None or self.home.health.failure is not None:
            return False
        if self.log_end_offset - self.recovery_point >= self.settings.flush_messages:
            return True
        deadline_ms = self.flush_deadline_ms
        return deadline_ms is not None and now_ms >= deadline_ms

    @property
    def flush_deadline_ms(self) -> float | None:
        """When ``flush.ms`` asks for the next flush; None without unflushed data or setting."""
        since_ms = self.unflushed_since_ms
        if since_ms is None or self.settings.flush_ms == INT64_MAX:
            return None
        if self.recovery_point >= self.log_end_offset:
            # What was not flushed has been cut off since; no flush would do anything.
            return None
        return since_ms + self.settings.flush_ms

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether a segment that is not appended to any more waits to be flushed.

        Kafka flushes a segment when it is rolled; so should whoever runs the housekeeping."""
        if self.refusal is not None or self.home.health.failure is not None:
            return False
        return self.recovery_point < self.segments[-1].base_offset

    @property
    def may_need_flush(self) -> bool:
        """Whether a periodic flush must look at this log again."""
        if self.settings.asks_for_flushes and self.recovery_point < self.log_end_offset:
            return True
        return self.has_unflushed_segments

    async def flush(self) -> None:
        """Make everything appended before the call durable and advance the recovery point.

        Raises KafkaError(KAFKA_STORAGE_ERROR); the directory is then offline for good (S-09)."""
        await flush_log(self)

    async def flush_sealed(self) -> None:
        """Make everything before the active segment durable: cheap, as it does not grow."""
        await flush_log(self, self.active.base_offset)

    async def save_leader_epochs(self) -> None:
        """Make the observer's leader epochs durable: before serving in a new one (R-04)."""
        await save_leader_epochs(self)

    async def truncate_to(self, offset: int, may_begin: Callable[[], bool] = _always) -> int:
        """Drop everything from ``offset`` on and return the log end offset that results.

        It is lower than asked for when the offset lies within a batch. Appends are refused until
        it is done. The observer is rebuilt. ``may_begin`` is asked when the log's turn has come,
        with nothing between its yes and the refusal of appends (hazard R-07); after a no nothing
        happens. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        return await truncate_log(self, offset, may_begin)

    async def truncate_fully_and_start_at(
        self, offset: int, may_begin: Callable[[], bool] = _always
    ) -> None:
        """Drop everything; the log is empty then and both its ends are ``offset``."""
        await restart_log(self, offset, may_begin)

    async def delete_records_before(self, offset: int) -> int:
        """Raise the log start offset, durably (S-19), and delete the segments before it.

        Returns the log start offset, which never goes back."""
        return await delete_log_before(self, offset)

    async def delete_old_segments(
        self, policy: Callable[[Sequence[SegmentView]], int], upper_bound_offset: int
    ) -> int:
        """Delete as many of the oldest segments as the policy says; returns how many went.

        Segments that reach the upper bound (the high watermark) stay. Raises
        KafkaError(KAFKA_STORAGE_ERROR) naming a file that cannot be removed."""
        return await delete_segments(self, policy, upper_bound_offset)

    def segment_views(self) -> list[SegmentView]:
        """What retention may know about each segment, oldest first."""
        return view_segments(self)

    async def close(self) -> bool:
        """Flush all, save the producers, and refuse appends from now on.

        False if a failed truncation left files that nobody can vouch for."""
        return await close_log(self)
