"""The log cleaner: one log after the other, the dirtiest first, for as long as the broker runs.

The work is done elsewhere (cleaning_pass.py, in a process of its own where files are on a disk);
here is decided which log, and what has been written is swapped in. A log that cannot be cleaned is
set apart with its reason and the others go on: a cleaner that died in silence once let the offsets
topic grow to 100 GB (hazard S-25).
"""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

from ottla.broker.cleaner.candidates import CleaningPlan, Survey, plan_run, survey_partition
from ottla.broker.cleaner.cleaner_run import CleanedGroup, clean_apart, clean_log
from ottla.broker.cleaner.settings import CleaningSettings
from ottla.broker.log.clean_swap import discard_files, remove_leftovers, swap_segments
from ottla.broker.log.storage.health import is_passing
from ottla.broker.replica.compaction import order_of_work
from ottla.broker.replica.retention import ClockWatch
from ottla.protocol.errors import CorruptLogError, ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping

    from ottla.broker.log.partition_log import PartitionLog
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock, Disk, Worker

logger = logging.getLogger("ottla.cleaning")

# After a failure that may pass (a full disk, a worker that died) others come first for so long.
REST_MS = 300_000.0
# The log's own fault: trying again would find the same.
_SPOILED = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)


class CleaningSeams(Protocol):
    """What cleaning needs of ``ports.Ports``."""

    @property
    def clock(self) -> Clock: ...

    @property
    def disk(self) -> Disk: ...

    @property
    def worker(self) -> Worker | None: ...


class CleanerRun(NamedTuple):
    """The last run that came to its end; zeros before the first one."""

    seconds: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0
    # Of its budget, how much memory the keys took, 0 to 1.
    map_use: float = 0.0


class CleaningStatus(NamedTuple):
    """Counters since the start, and what the last look and the last run found."""

    runs: int
    # Runs that were abandoned because the log changed meanwhile (retention, truncation, deletion).
    aborted: int
    failures: int
    read_bytes: int
    freed_bytes: int
    # As of the last look at all partitions: what a run could clean, due or not.
    dirty_bytes: int
    uncleanable: Mapping[TopicPartition, str]
    # Whether the task has died of an unexpected failure.
    is_dead: bool
    # Milliseconds since all partitions were looked at; since the start, if that never was.
    unseen_ms: float
    # As of the last look: the largest dirty ratio, and the longest time that a log has been dirty
    # beyond ``max.compaction.lag.ms``.
    dirtiest_ratio: float
    overdue_ms: int
    last_run: CleanerRun


class Cleaning:
    """Owned by the server. ``run`` is its only task; one log is cleaned at a time."""

    def __init__(
        self,
        partitions: Iterable[PartitionRuntime],
        seams: CleaningSeams,
        settings: Callable[[], CleaningSettings] = CleaningSettings,
    ) -> None:
        self._partitions = partitions
        self._seams = seams
        self._settings = settings
        self._clock_watch = ClockWatch()
        # The server replaces it by housekeeping's, which also compares with the previous start.
        self.trusts_clock: Callable[[], bool] = self._watch_clock
        # A log of the same name that was made since is another log.
        self._spoiled: dict[TopicPartition, tuple[PartitionLog, str]] = {}
        self._resting_until_ms: dict[TopicPartition, float] = {}
        self._runs = self._aborted = self._failures = 0
        self._read_bytes = self._freed_bytes = self._dirty_bytes = 0
        self._is_dead = False
        self._looked_ms = seams.clock.now_ms()
        self._dirtiest_ratio, self._overdue_ms = 0.0, 0
        self._last_run = CleanerRun()

    def status(self) -> CleaningStatus:
        """How it goes."""
        return CleaningStatus(
            self._runs,
            self._aborted,
            self._failures,
            self._read_bytes,
            self._freed_bytes,
            self._dirty_bytes,
            {partition: reason for partition, (_, reason) in self._spoiled.items()},
            self._is_dead,
            self._seams.clock.now_ms() - self._looked_ms,
            self._dirtiest_ratio,
            self._overdue_ms,
            self._last_run,
        )

    def uncleanable_logs(self) -> Iterator[PartitionLog]:
        """Iterate over the logs that are set apart."""
        return iter([log for log, _reason in self._spoiled.values()])

    async def run(self) -> None:
        """Clean whatever is due, then look again after ``log.cleaner.backoff.ms``."""
        try:
            while True:
                if not await self.clean_dirtiest():
                    await self._seams.clock.sleep(max(1, self._settings().backoff_ms))
        except Exception:
            self._is_dead = True
            raise

    async def clean_dirtiest(self) -> bool:
        """Clean the log that needs it most; False if none did, or it came to nothing."""
        surveys = self._survey_all()
        due = [found for found in surveys if found.dirt.is_due(found.rules)]
        if not due:
            return False
        return await self._clean(max(due, key=lambda found: order_of_work(found.dirt)))

    async def clean(self, one: PartitionRuntime) -> bool:
        """Clean a log now, however little there is to gain; whether it could be done."""
        found = survey_partition(one, self._seams.clock.wall_ms())
        if found is None or found.dirt.end_offset <= one.log.segments[0].base_offset:
            return False
        return await self._clean(found)

    def _watch_clock(self) -> bool:
        clock = self._seams.clock
        return self._clock_watch.is_trusted(clock.now_ms(), clock.wall_ms())

    def _survey_all(self) -> list[Survey]:
        wall_ms, now_ms = self._seams.clock.wall_ms(), self._seams.clock.now_ms()
        if self._spoiled:
            self._spoiled = {
                one.partition: self._spoiled[one.partition]
                for one in self._partitions
                if one.partition in self._spoiled and self._spoiled[one.partition][0] is one.log
            }
        surveys = []
        dirty_bytes, dirtiest_ratio, overdue_ms = 0, 0.0, 0
        for one in self._partitions:
            if one.settings.compaction is None:
                # Most are not compacted, and cost a glance.
                continue
            if one.partition in self._spoiled or not one.log.home.health.is_online:
                continue
            try:
                found = survey_partition(one, wall_ms)
            except CorruptLogError as error:
                self._set_apart(one, str(error))
                continue
            except OSError as error:
                what = f"cannot look at the segments of {one.partition}"
                self._rest(one, one.log.home.health.judge(what, error).message)
                continue
            if found is None:
                continue
            dirty_bytes += found.dirt.dirty_bytes
            dirtiest_ratio = max(dirtiest_ratio, found.dirt.ratio)
            overdue_ms = max(overdue_ms, found.dirt.overdue_ms)
            if now_ms >= self._resting_until_ms.get(one.partition, 0):
                surveys.append(found)
        self._dirty_bytes, self._looked_ms = dirty_bytes, now_ms
        self._dirtiest_ratio, self._overdue_ms = dirtiest_ratio, overdue_ms
        return surveys

    async def _clean(self, found: Survey) -> bool:
        one = found.one
        try:
            return await self._carry_out(found)
        except CorruptLogError as error:
            self._set_apart(one, str(error))
        except KafkaError as error:
            if one.log.refusal is not None or not one.log.home.health.is_online:
                # It was deleted, or has said itself what is wrong with its disk.
                self._aborted += 1
            elif error.code in _SPOILED:
                self._set_apart(one, error.message)
            else:
                self._rest(one, error.message)
        except OSError as error:
            await self._judge(one, error)
        return False

    async def _judge(self, one: PartitionRuntime, error: OSError) -> None:
        """A file could not be read or written by the run."""
        what = f"cannot clean the log of {one.partition}"
        self._rest(one, one.log.home.health.judge(what, error).message)
        if is_passing(error):
            # On a full disk what was written so far is in the way.
            try:
                await remove_leftovers(one.log)
            except KafkaError as second:
                logger.error("%s", second.message)

    def _rest(self, one: PartitionRuntime, reason: str) -> None:
        self._failed(one, reason)
        self._resting_until_ms[one.partition] = self._seams.clock.now_ms() + REST_MS

    def _set_apart(self, one: PartitionRuntime, reason: str) -> None:
        self._failed(one, reason)
        self._spoiled[one.partition] = one.log, reason

    def _failed(self, one: PartitionRuntime, reason: str) -> None:
        self._failures += 1
        logger.error("cleaning of %s-%d has failed: %s", *one.partition, reason)

    # ---- one run ----

    async def _carry_out(self, found: Survey) -> bool:
        one, clock = found.one, self._seams.clock
        log = one.log
        await log.flush_sealed()
        await remove_leftovers(log)
        again = survey_partition(one, clock.wall_ms())
        if again is None:
            # It is deleted, or is not to be compacted any more; its segments may have gone.
            self._aborted += 1
            return False
        plan = plan_run(again, self._settings(), clock.wall_ms(), trusts_clock=self.trusts_clock())
        end_offset = number = 0
        started_ms, run = clock.now_ms(), CleanerRun()
        try:
            async with aclosing(self._groups(plan)) as groups:
                async for group in groups:
                    assert group.number == number, "the sources of another group would be replaced"
                    assert group.end_offset >= end_offset
                    if not await self._swap_in(plan, group):
                        self._aborted += 1
                        return False
                    number, end_offset = group.number + 1, group.end_offset
                    run = CleanerRun(
                        (clock.now_ms() - started_ms) / 1000,
                        run.read_bytes + group.bytes_read,
                        run.written_bytes + group.files.size_bytes,
                        group.map_use,
                    )
        except (CorruptLogError, KafkaError, OSError):
            if plan.is_current(number):
                raise
            # What was read was being cut, or had gone: that proves nothing.
            self._aborted += 1
            return False
        if end_offset and plan.is_current(len(plan.sources)):
            log.cleaned_offset = max(log.cleaned_offset, min(end_offset, log.log_end_offset))
            await log.home.save_cleaner_offsets()
        self._runs += 1
        self._last_run = run
        self._resting_until_ms.pop(one.partition, None)
        return True

    async def _groups(self, plan: CleaningPlan) -> AsyncGenerator[CleanedGroup, None]:
        """The groups as they are written, in the worker process if there is one."""
        worker = self._seams.worker
        if worker is not None:
            async with aclosing(worker.run(clean_apart, plan.order)) as groups:
                async for group in groups:
                    yield group
            return
        clock, rate = self._seams.clock, plan.order.bytes_per_second
        started_ms, done_bytes = clock.now_ms(), 0
        for step in clean_log(self._seams.disk, plan.order):
            if isinstance(step, CleanedGroup):
                yield step
                continue
            done_bytes += step.size_bytes
            due_ms = 0.0 if rate is None else started_ms + 1000 * done_bytes / rate
            await clock.sleep(max(0.0, due_ms - clock.now_ms()))

    async def _swap_in(self, plan: CleaningPlan, group: CleanedGroup) -> bool:
        """Take over what was written for a group; False if nothing of the run counts any more."""
        log, sources = plan.one.log, plan.sources[group.number]
        self._read_bytes += group.bytes_read
        if not plan.is_current(group.number):
            return False
        if not group.is_changed or sources.were_deleted(log):
            await discard_files(log, group.files)
            return True
        is_done = await swap_segments(
            log,
            sources,
            group.files,
            drops_markers=group.markers_dropped > 0,
            is_wanted=lambda: plan.is_current(group.number),
        )
        if is_done:
            self._freed_bytes += group.bytes_read - group.files.size_bytes
        return is_done
