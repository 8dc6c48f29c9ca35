"""One replica fetcher: fetches all partitions that this broker follows of one leader.

A fetcher has one request in flight, on a connection of its own. broker/following/steps.py decides
what an answer means; the fetcher carries that out at once, partition by partition. A log that has
to be truncated is busy until that is done, and the other partitions continue. A fetch offset tells
the leader that all records before it are stored here: if the topic's settings require a flush for
that, the next request waits for the flush.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.following.fetcher_state import Followed, Following, Pauses
from ottla.broker.following.link import FetcherLink
from ottla.broker.following.log import (
    NO_CUT,
    append_fetched,
    begin_within,
    cut_back,
    fetched_runs,
    may_change,
    raise_log_start,
    start_over,
)
from ottla.broker.following.steps import LogAction, step_for
from ottla.broker.following.wire import FetchSettings, FollowerIdentity, parts_of
from ottla.broker.replica.roles import Role
from ottla.protocol.errors import CorruptLogError, KafkaError
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.following.link import PeerConnections
    from ottla.broker.following.log import TruncatedRecords
    from ottla.broker.following.steps import FetchPosition, FollowerStep, LeaderAnswer
    from ottla.broker.following.wire import LeaderResponse
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.throttles import ReplicationThrottles
    from ottla.protocol.ids import TopicPartition, Uuid
    from ottla.protocol.ports import Clock
    from ottla.protocol.schema import Records

    Work = Callable[[], Coroutine[None, None, TruncatedRecords]]

logger = logging.getLogger("ottla.replication")

# Partitions on a full disk are not requested: as long as none of their records are written, the
# leader would consider the follower caught up and then wait for it.
FULL_DISK_MS = 500.0


def _never() -> bool:
    return False


# Consecutive failures; with the pauses between them about five seconds.
LASTING_REFUSALS = 10

# A flush that takes longer delays only its own partition, not those on other disks.
FLUSH_PATIENCE_MS = 500.0


class FetcherParts(NamedTuple):
    """Parts that all fetchers of a broker share."""

    peers: PeerConnections
    sender: Callable[[], FollowerIdentity]
    clock: Clock
    tasks: Tasks
    manner: FetchSettings = FetchSettings()
    pauses: Pauses = Pauses()
    timeout_ms: float = 30_000.0
    throttles: ReplicationThrottles | None = None
    # Whether a data directory of this broker refuses appends for lack of space.
    has_full_disk: Callable[[], bool] = _never


class FetchCounts:
    """Counters of all fetchers since the broker's start, and the number of logs being truncated."""

    def __init__(self) -> None:
        self.fetched_bytes = 0
        # Truncated records that the leader does not have, and how many of them were committed.
        self.cut_count = 0
        self.lost_count = 0
        self.works: set[asyncio.Task[None]] = set()

    def cut(self, cut: TruncatedRecords) -> None:
        """Count a truncated log."""
        self.cut_count += cut.cut_count
        self.lost_count += cut.lost_count


class ReplicaFetcher:
    """Owned by ``Fetchers``; runs as long as this broker follows a partition of the leader."""

    def __init__(self, leader: int, number: int, parts: FetcherParts, counts: FetchCounts) -> None:
        self.leader = leader
        self.name = f"fetcher {number} from broker {leader}"
        self.following = Following(parts.pauses)
        self.link = FetcherLink(leader, self.name, parts)
        self._parts = parts
        self._clock = parts.clock
        self._counts = counts
        self._runtimes: dict[TopicPartition, PartitionRuntime] = {}
        self._names: dict[Uuid, str] = {}
        self._raising: set[TopicPartition] = set()
        # Flushes in progress, and how long the other partitions wait for them.
        self._flushing: dict[Followed, float] = {}
        self._wake = asyncio.Event()

    # ---- what is followed ----

    def follow(self, runtime: PartitionRuntime) -> None:
        """Fetch a partition under its present leader epoch."""
        partition = runtime.partition
        known = self.following.get(partition)
        is_same = known is not None and known.leader_epoch == runtime.replica.leader_epoch
        if is_same and self._runtimes[partition] is runtime:
            return
        assert runtime.replica.role is Role.FOLLOWER, "no other broker decides on a leader's log"
        topic_id = runtime.log.topic_id or ZERO_UUID
        self._runtimes[partition] = runtime
        one = Followed(partition, topic_id, runtime.replica)
        self.following.add(one)
        assert len(self._runtimes) == len(self.following)
        self._names[topic_id] = partition.topic
        if len(self._names) > 2 * len(self.following):
            # Topics come and go during the leader's life. Only now and then: a check of all
            # followed partitions for each change would make a failover quadratic.
            self._names = {one.topic_id: one.partition.topic for one in self.following}
        # The broker may have led the partition before, and its log may have unflushed records.
        self._flush_if_due(one)
        self._hurry()

    def leave(self, partition: TopicPartition) -> bool:
        """Stop fetching a partition; an answer in flight no longer applies to it."""
        self._runtimes.pop(partition, None)
        was_followed = self.following.remove(partition)
        assert len(self._runtimes) == len(self.following)
        return was_followed

    def _hurry(self) -> None:
        self._wake.set()
        self.link.hurry()

    # ---- the loop ----

    async def run(self) -> None:
        """Fetch until cancelled."""
        try:
            while True:
                await self._await_flushes()
                self._wake.clear()
                now_ms = self._clock.now_ms()
                asks = self._prepare(now_ms)
                next_ready_ms = self.following.next_ready_ms(now_ms)
                if not asks:
                    await self._sleep(next_ready_ms)
                    continue
                wait_ms = None if next_ready_ms is None else next_ready_ms - now_ms
                try:
                    response = await self.link.ask(wait_ms)
                except (OSError, KafkaError, ClientError) as error:
                    await self.link.failed(error, now_ms)
                else:
                    await self._take(response)
        finally:
            self.link.close()

    def _prepare(self, now_ms: float) -> bool:
        """Build the next request; return whether it asks for any partition."""
        following = self.following
        if self._parts.has_full_disk():
            for one in following.ready(now_ms):
                if self._runtimes[one.partition].log.home.health.has_no_room:
                    following.hold(one, now_ms + FULL_DISK_MS)
        if self.link.is_incremental:
            return self.link.go_on(following.changes(now_ms))
        return self.link.begin(following.everything(now_ms))

    async def _sleep(self, until_ms: float | None) -> None:
        timer = None if until_ms is None else self._clock.call_at(until_ms, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    # ---- answers ----

    async def _take(self, response: LeaderResponse | None) -> None:
        if response is None:
            return
        for partition, told, records in parts_of(response, self._names):
            asked = self.link.asked_for(partition)
            if asked is not None and self._take_part(*asked, told, records):
                # Yield to the event loop, so that ten partitions of a megabyte each do not block
                # it.
                await asyncio.sleep(0)

    def _take_part(
        self, one: Followed, ask: FetchPosition, told: LeaderAnswer, records: Records | None
    ) -> bool:
        """Apply one partition's part of the answer; return whether that was much work."""
        if not self.following.holds(one):
            return False
        runtime = self._runtimes[one.partition]
        if one.is_busy or not may_change(runtime, ask.leader_epoch):
            return False
        assert runtime.replica is one.replica
        step = step_for(ask, told, one.replica)
        if step.action is LogAction.APPEND:
            return self._append(one, step, told, records)
        if step.action is LogAction.WAIT:
            self._tell_refusal(one, ask, step)
        self.following.taken(one, step, self._clock.now_ms())
        if step.action is LogAction.TRUNCATE:
            self._work(one, partial(cut_back, runtime, step.offset, ask.leader_epoch))
        elif step.action is LogAction.RESTART:
            self._work(one, partial(start_over, runtime, step.offset, ask.leader_epoch))
        return False

    def _tell_refusal(self, one: Followed, ask: FetchPosition, step: FollowerStep) -> None:
        # Brokers learn of a new topic or leader at different times: warn only if the error
        # persists.
        if one.failure_count in (0, LASTING_REFUSALS):
            logger.log(
                logging.WARNING if one.failure_count else logging.DEBUG,
                "%s-%d: broker %d answers the fetch at offset %d in epoch %d: %s",
                *one.partition,
                self.leader,
                ask.fetch_offset,
                ask.leader_epoch,
                step.error.text,
            )

    def _append(
        self, one: Followed, step: FollowerStep, told: LeaderAnswer, records: Records | None
    ) -> bool:
        runtime = self._runtimes[one.partition]
        log = runtime.log
        now_ms = self._clock.now_ms()
        try:
            runs = (
                fetched_runs(runtime, records, one.leader_epoch)
                if isinstance(records, memoryview | bytes) and step.has_records
                else []
            )
            if runs and runs[0][0].base_offset < log.log_end_offset:
                self._work(one, partial(begin_within, runtime, runs, told, one.leader_epoch))
                return True
            written_bytes = append_fetched(runtime, runs, told.high_watermark, now_ms)
            self._counts.fetched_bytes += written_bytes
        except KafkaError as error:
            # Delete here what the leader has deleted: that may free the space that is missing.
            self._follow_start(one, runtime, told)
            self._rest(one, error)
            return False
        one.lag = max(0, told.high_watermark - log.log_end_offset)
        self.following.taken(one, step, now_ms)
        throttles = self._parts.throttles
        if throttles is not None and written_bytes:
            hold_ms = throttles.hold_followed_ms(runtime, written_bytes, is_caught_up=one.lag == 0)
            if hold_ms > 0:
                self.following.hold(one, now_ms + hold_ms)
        self._follow_start(one, runtime, told)
        if log.log_end_offset >= told.high_watermark:
            # Below this version a follower's fetch offset moves no watermark and lets it join no
            # ISR, so it needs no flush; with a flush per answer it would not catch up.
            self._flush_if_due(one)
        return bool(runs)

    def _follow_start(self, one: Followed, runtime: PartitionRuntime, told: LeaderAnswer) -> None:
        start_offset = told.log_start_offset
        if start_offset > runtime.log.log_start_offset and one.partition not in self._raising:
            self._raising.add(one.partition)
            self._spawn(one, self._raise_start(one, runtime, start_offset), "cutting")

    # ---- flushes ----

    def _flush_if_due(self, one: Followed) -> None:
        """Start the flush that ``flush.messages`` and the like require; the partition is not
        requested until it is done."""
        runtime = self._runtimes[one.partition]
        if runtime.flush_is_due:
            one.awaits_flush = True
            self._flushing[one] = self._clock.now_ms() + FLUSH_PATIENCE_MS
            self._work(one, partial(self._flush, one, runtime), "flushing")

    async def _flush(self, one: Followed, runtime: PartitionRuntime) -> TruncatedRecords:
        assert one.is_busy, "an append would come between the flush and the next request"
        try:
            # No append can happen meanwhile: no fetch request is in flight.
            await runtime.flush()
        finally:
            self._flushing.pop(one, None)
        one.awaits_flush = False
        return NO_CUT

    async def _await_flushes(self) -> None:
        """Wait for the flushes of the last answer, so that one request contains all partitions
        again."""
        while self._flushing:
            until_ms = max(self._flushing.values())
            if until_ms <= self._clock.now_ms():
                return
            self._wake.clear()
            await self._sleep(until_ms)

    # ---- works ----

    async def _raise_start(self, one: Followed, runtime: PartitionRuntime, offset: int) -> None:
        """Raise the log start; fetching continues, since it changes only the other end of the
        log."""
        assert one.partition in self._raising, "two tasks would move the log's start"
        try:
            await raise_log_start(runtime, offset, one.leader_epoch)
        except KafkaError as error:
            self._rest(one, error)
        finally:
            self._raising.discard(one.partition)

    def _work(self, one: Followed, work: Work, what: str = "cutting") -> None:
        """Change the log in a separate task: a change cancelled half-way would make it unusable
        (P-04)."""
        assert not one.is_busy, "two tasks would change one log"
        one.is_busy = True
        self.following.stir(one)
        self._spawn(one, self._finish(one, work), what)

    def _spawn(self, one: Followed, coroutine: Coroutine[None, None, None], what: str) -> None:
        name = f"{what} {one.partition.topic}-{one.partition.partition}"
        task = self._parts.tasks.spawn(name, coroutine)
        self._counts.works.add(task)
        task.add_done_callback(self._counts.works.discard)

    async def _finish(self, one: Followed, work: Work) -> None:
        assert one.is_busy, "the log is this task's alone until it ends"
        try:
            self._counts.cut(await work())
        except (KafkaError, CorruptLogError) as error:
            self._rest(one, error)
        finally:
            one.is_busy = False
            self.following.stir(one)
            self._hurry()
        if self.following.holds(one) and not one.awaits_flush:
            self._flush_if_due(one)

    def _rest(self, one: Followed, error: Exception) -> None:
        if one.failure_count == 0:
            logger.error("%s-%d cannot follow broker %d: %s", *one.partition, self.leader, error)
        self.following.rest(one, self._clock.now_ms())
