"""Runs periodic chores: flushing, retention, checkpoints, expiry of producers, transaction ages.

Each chore is a separate task under the supervisor, so that a slow one delays no other. A failing
disk ends no chore: its directory goes offline, and the chores continue with the other directories.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.replica.retention import (
    ClockWatch,
    ModifiedTimeRetention,
    SegmentFacts,
    TimeRetention,
    deletable_count,
)
from ottla.protocol.errors import CorruptLogError, KafkaError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.log.segment_view import SegmentView
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.partitions import Partitions
    from ottla.broker.replica.retention import Policy
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.housekeeping")

# How often flush.ms is looked at: it is a promise in milliseconds, kept to about this much.
FLUSH_CHECK_MS = 100.0
TIDY_MS = 1_000.0
TRANSACTIONS_MS = 1_000.0
WALL_CLOCK_MS = 60_000.0


class Intervals(NamedTuple):
    """Kafka's settings of these names, in milliseconds."""

    retention_check_ms: float = 300_000
    checkpoint_ms: float = 5_000
    producer_expiration_ms: float = 86_400_000
    producer_expiration_check_ms: float = 600_000


class Housekeeping:
    """Owned by the server; starts with it and is stopped before the logs are closed (S-15)."""

    def __init__(
        self, partitions: Partitions, clock: Clock, tasks: Tasks, intervals: Intervals
    ) -> None:
        self._partitions = partitions
        self._clock = clock
        self._tasks = tasks
        self._intervals = intervals
        self._clock_watch = ClockWatch()
        self._was_trusted = True
        # Rules of the operator's own, beside those of the topics: any one is enough (LOG-23).
        self.policies: list[Policy] = []

    def start(self) -> None:
        """Start every chore."""
        self._meet_clock()
        chores: dict[str, tuple[Callable[[], Awaitable[object]], float]] = {
            "flush": (self.flush_due, FLUSH_CHECK_MS),
            "retention": (self.apply_retention, self._intervals.retention_check_ms),
            "checkpoint": (self.checkpoint, self._intervals.checkpoint_ms),
            "producer expiration": (
                self.expire_producers,
                self._intervals.producer_expiration_check_ms,
            ),
            "open transactions": (self.note_transactions, TRANSACTIONS_MS),
            "tidy": (self.tidy, TIDY_MS),
        }
        for name, (chore, interval_ms) in chores.items():
            self._tasks.spawn(name, self._repeat(chore, interval_ms))
        self._tasks.spawn("wall clock", self._note_times())

    async def finish(self) -> None:
        """The chores have been stopped and the logs are still open: note the time once more."""
        await self.note_time()

    async def _repeat(self, chore: Callable[[], Awaitable[object]], interval_ms: float) -> None:
        while True:
            await self._clock.sleep(interval_ms)
            await chore()

    async def flush_due(self) -> None:
        """Flush logs whose flush.ms is over, and sealed segments that are not flushed yet."""
        for one in self._partitions.attention.to_flush(self._partitions.logs):
            try:
                if one.flush_is_due:
                    await one.flush()
                elif one.log.has_unflushed_segments:
                    await one.log.flush_sealed()
            except KafkaError as error:
                _report(one, error)
            finally:
                if one.log.may_need_flush:
                    one.log.home.to_flush[one.log] = None

    async def apply_retention(self) -> None:
        """Delete the oldest segments by the policies of their topics."""
        trusted = self.trusts_clock()
        # One time for the whole pass: a clock that jumps during the pass was not checked.
        wall_ms = self._clock.wall_ms()
        for one in self._partitions:
            if not one.log.home.health.is_online:
                continue
            try:
                await self._delete_old_segments(one, wall_ms, by_time=trusted)
            except KafkaError as error:
                _report(one, error)
            except CorruptLogError as error:
                logger.error("retention of %s-%d: %s", *one.partition, error)

    async def _delete_old_segments(
        self, one: PartitionRuntime, wall_ms: int, *, by_time: bool
    ) -> None:
        policies = [
            policy
            for policy in (*one.settings.policies, *self.policies)
            if by_time or not isinstance(policy, TimeRetention | ModifiedTimeRetention)
        ]
        if not policies:
            return
        high_watermark = one.replica.high_watermark

        def choose(segments: Sequence[SegmentView]) -> int:
            facts = [self._facts(one, segment, wall_ms) for segment in segments]
            return deletable_count(
                facts,
                policies,
                wall_ms,
                high_watermark=high_watermark,
                log_start_offset=one.log_start_offset,
            )

        count = await one.log.delete_old_segments(choose, high_watermark)
        if count:
            one.log_was_cut()
            logger.info("deleted %d segments of %s-%d", count, *one.partition)

    def _facts(self, one: PartitionRuntime, segment: SegmentView, wall_ms: int) -> SegmentFacts:
        modified_ms = one.log.home.disk.modified_ms(segment.path)
        return SegmentFacts(
            segment.base_offset,
            segment.next_offset,
            segment.size_bytes,
            segment.max_timestamp,
            wall_ms if modified_ms < 0 else modified_ms,
            segment.is_active,
        )

    def _meet_clock(self) -> None:
        """Compare the wall clock with what it was when a broker last ran here (hazard S-18)."""
        wall_ms, last_wall_ms = self._clock.wall_ms(), self._partitions.logs.last_wall_ms
        watch = self._clock_watch
        self._was_trusted = watch.begin(self._clock.now_ms(), wall_ms, last_wall_ms)
        if not self._was_trusted and last_wall_ms is not None:
            logger.warning(
                "the wall clock is %.1f hours from where it was when a broker last ran here: "
                "that may be a jump, so nothing is deleted by time for %.0f minutes",
                (wall_ms - last_wall_ms) / 3_600_000,
                watch.settle_ms / 60_000,
            )

    def trusts_clock(self) -> bool:
        """Whether the wall clock may decide about deletions now (hazard S-18)."""
        trusted = self._clock_watch.is_trusted(self._clock.now_ms(), self._clock.wall_ms())
        if trusted != self._was_trusted:
            self._was_trusted = trusted
            if trusted:
                logger.info("the wall clock has settled: retention by time resumes")
            else:
                logger.warning(
                    "the wall clock has jumped: nothing is deleted by time until it settles"
                )
        return trusted

    async def _note_times(self) -> None:
        while True:
            await self.note_time()
            await self._clock.sleep(WALL_CLOCK_MS)

    async def note_time(self) -> None:
        """Save the wall clock for the next start, unless it is in doubt."""
        if self.trusts_clock():
            await self._partitions.logs.save_wall_clock(self._clock.wall_ms())

    async def checkpoint(self) -> None:
        """Save recovery points, log starts and high watermarks."""
        await self._partitions.logs.checkpoint(self._partitions.high_watermarks)

    async def expire_producers(self) -> None:
        """Forget producers that have been silent for ``producer.id.expiration.ms``."""
        now_ms, expiration_ms = self._clock.now_ms(), self._intervals.producer_expiration_ms
        for one in self._partitions:
            one.replica.history.producers.expire(now_ms, expiration_ms)
            if one.replica.leading is not None:
                one.replica.leading.verifications.expire(now_ms, expiration_ms)

    async def note_transactions(self) -> None:
        """Record how long transactions have been open, for the metrics of hanging ones."""
        self._partitions.attention.note_transactions(self._clock.now_ms())

    async def tidy(self) -> None:
        """Remove what was deleted long enough ago, look at free space, close unused files."""
        await self._partitions.logs.tidy(self._clock.now_ms())


def _report(one: PartitionRuntime, error: KafkaError) -> None:
    """Unless it is known: a failed directory has been told of once for all its partitions, and
    that a topic was deleted while its chore waited is nothing to tell."""
    if one.log.refusal is None and one.log.home.health.is_online:
        logger.error("%s", error.message)
