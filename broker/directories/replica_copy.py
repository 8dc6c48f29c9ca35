"""Copying a log into its future one, batch by batch, while it is appended to, cut and deleted from.

What the log loses meanwhile the copy loses as well: the log notes the lowest offset that was cut
(``OpenLog.lowest_cut``), which is looked at before each read and again before what was read is
written, with no ``await`` between that look and the write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.following.batches import AppendLimits, runs_of
from ottla.broker.log.storage.scan import parse_entry
from ottla.broker.log.storage.settings import INT32_MAX, INT64_MAX
from ottla.broker.log.storage.txn_index import AbortedTransaction
from ottla.protocol.errors import CorruptLogError, ErrorCode, KafkaError
from ottla.protocol.records.batch import NO_PRODUCER_ID, check_crc

if TYPE_CHECKING:
    from ottla.broker.log.directories.future_logs import Future
    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.batch import RecordBatch

# Read at once; also what may be missing when the rest is copied without a pause. Parsing small
# batches costs a hundred nanoseconds for each byte of this.
SLICE_BYTES = 128 * 1024
# While a log's files are exchanged nothing else may change them, so that takes no longer.
SLICES_MAX = 64
_NO_EPOCH = -2


class ReplicaCopy:
    """Fills one copy; made for one move. Everything raises KafkaError and CorruptLogError."""

    def __init__(self, future: Future) -> None:
        self._future = future
        self._epoch = _NO_EPOCH

    @property
    def is_complete(self) -> bool:
        """Whether the copy has everything, as of now."""
        log, copy = self._future.log, self._future.copy
        return (
            log.lowest_cut >= copy.log_end_offset == log.log_end_offset
            and copy.log_start_offset == log.log_start_offset
        )

    async def copy_slice(self) -> int:
        """Copy the next batches; returns how many bytes, 0 when there was nothing to copy."""
        log, copy = self._future.log, self._future.copy
        copy.settings = log.settings
        await log.settled()
        await self._follow_cuts()
        log.ensure_usable()
        start_offset = copy.log_end_offset
        found = log.read(start_offset, SLICE_BYTES, log.log_end_offset, at_least_one=True)
        if found.region is None:
            return 0
        try:
            content = await log.home.offload.run(found.region.read)
        except OSError as error:
            raise self._unreadable(error) from error
        if log.lowest_cut < found.next_offset or copy.log_end_offset != start_offset:
            # What was read may be gone.
            return 0
        runs = self._runs(content)
        if runs[0][0].base_offset < start_offset:
            # The log starts within a batch, which is copied whole.
            await copy.truncate_fully_and_start_at(runs[0][0].base_offset)
            if log.lowest_cut < found.next_offset:
                return 0
        self._append(runs)
        return len(content)

    async def come_near(self) -> bool:
        """Copy until no more than a slice is missing; False if it is more after many slices."""
        log, copy = self._future.log, self._future.copy
        for _ in range(SLICES_MAX):
            if self.is_near:
                break
            await self.copy_slice()
        else:
            return False
        if copy.log_start_offset < log.log_start_offset:
            await copy.delete_records_before(log.log_start_offset)
        return True

    def copy_rest(self) -> None:
        """Copy all that is missing, without a pause; to be called when it is little."""
        log, copy = self._future.log, self._future.copy
        while copy.log_end_offset < log.log_end_offset:
            found = log.read(
                copy.log_end_offset, SLICE_BYTES, log.log_end_offset, at_least_one=True
            )
            assert found.region is not None
            try:
                content = found.region.read()
            except OSError as error:
                raise self._unreadable(error) from error
            self._append(self._runs(content))

    @property
    def is_near(self) -> bool:
        """Whether no more is missing than one slice."""
        log, copy = self._future.log, self._future.copy
        if log.lowest_cut < copy.log_end_offset or copy.log_end_offset < log.log_start_offset:
            return False
        if copy.log_end_offset == log.log_end_offset:
            return True
        if copy.log_start_offset == copy.log_end_offset:
            # Where it begins is known when its first batch is.
            return False
        found = log.read(copy.log_end_offset, SLICE_BYTES, log.log_end_offset, at_least_one=False)
        return found.region is not None and found.next_offset == log.log_end_offset

    async def _follow_cuts(self) -> None:
        log, copy = self._future.log, self._future.copy
        while True:
            cut, log.lowest_cut = log.lowest_cut, INT64_MAX
            if cut < copy.log_end_offset:
                self._epoch = _NO_EPOCH
                await copy.truncate_to(cut)
            elif copy.log_end_offset < log.log_start_offset:
                self._epoch = _NO_EPOCH
                await copy.truncate_fully_and_start_at(log.log_start_offset)
            else:
                return

    def _unreadable(self, error: OSError) -> KafkaError:
        """For the log's directory to judge: a task that fails on it would stop the broker."""
        log = self._future.log
        return log.home.health.judge(f"cannot read the log of {log.partition}", error)

    def _runs(self, content: Buffer) -> list[list[RecordBatch]]:
        copy = self._future.copy
        if self._future.log.keeps_messages:
            return self._kept_runs(memoryview(content))
        limits = AppendLimits(copy.log_end_offset, INT32_MAX, copy.settings.segment_bytes)
        try:
            return runs_of(content, limits)
        except KafkaError as error:
            if error.code is not ErrorCode.CORRUPT_MESSAGE:
                raise
            # The move ends: reading the same file again would find the same damage.
            raise CorruptLogError(
                f"its log has a damaged batch from offset {copy.log_end_offset} on"
            ) from error

    def _kept_runs(self, content: memoryview) -> list[list[RecordBatch]]:
        """Batches and messages of format 1, each to be written by itself."""
        copy = self._future.copy
        runs: list[list[RecordBatch]] = []
        position = 0
        while position < len(content):
            batch = parse_entry(content, position)
            if not check_crc(batch):
                raise CorruptLogError(f"its log has a damaged entry at {batch}")
            position += batch.size_bytes
            if runs or batch.next_offset > copy.log_end_offset:
                runs.append([batch])
        return runs

    def _append(self, runs: list[list[RecordBatch]]) -> None:
        copy = self._future.copy
        now_ms = copy.home.clock.now_ms()
        for run in runs:
            copy.append(run, now_ms)
            # Told before the next append, which may roll the log and save them.
            for batch in run:
                if batch.producer_id == NO_PRODUCER_ID and batch.leader_epoch == self._epoch:
                    continue
                self._epoch = batch.leader_epoch
                aborted = copy.observer.observe(batch)
                if aborted is not None:
                    copy.append_aborted(AbortedTransaction(*aborted))
