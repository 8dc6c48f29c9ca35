"""Serves one fetch over many partitions: byte limits, and waiting for enough data.

The steps are Kafka's: read every partition and count the bytes. Answer at once if no wait is asked
for, no partition is requested, there are enough bytes, or there is an error; otherwise park the
request. A wake-up reads again; only the last read is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.engine.deferred import DeferredAnswer
from ottla.broker.partitions.conversions import Conversions
from ottla.broker.partitions.fetch_session import Sessions
from ottla.broker.partitions.follower_reads import FollowerReads, QuietPartitions
from ottla.broker.partitions.partition_read import FetchPlan, PartitionFetch, PartitionRead
from ottla.broker.partitions.reading import read_partition
from ottla.broker.replica.fetching import FetchBudget, FetchProgress, must_wait
from ottla.broker.replica.partition import NO_EPOCH
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Sequence

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.engine.purgatory import Purgatory
    from ottla.broker.partitions.fetch_session import Session
    from ottla.broker.partitions.follower_reads import FollowerPoll
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.partitions import Partitions
    from ottla.broker.partitions.readers_at_rest import ReadersAtRest
    from ottla.broker.partitions.throttles import ReplicationThrottles
    from ottla.broker.replica.leadership_proofs import LeadershipProofs
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.protocol.ids import Uuid
    from ottla.protocol.ports import Ports

Response = TypeVar("Response")


class Reads:
    """Owned by the server."""

    def __init__(
        self,
        partitions: Partitions,
        waiting: Purgatory,
        ports: Ports,
        config: BrokerConfig,
        throttles: ReplicationThrottles,
        proofs: LeadershipProofs,
    ) -> None:
        self._partitions = partitions
        self._waiting = waiting
        self._offload = ports.offload
        self._followers = FollowerReads(waiting, ports.clock, proofs)
        self._throttles = throttles
        self.fetch_max_bytes = config.fetch_max_bytes
        # Set if consumers may read from the replica in their own rack.
        self.sends_to_racks = config.replica_selector_class is not None
        self.sessions = Sessions(config.max_incremental_fetch_session_cache_slots)
        # Created by the first request of that kind (handlers/data/fetch_many.py).
        self.readers: ReadersAtRest | None = None
        self.cold_read_count = 0
        self.conversions = Conversions(ports.offload)

    def fetch(
        self,
        context: RequestContext,
        plan: FetchPlan,
        respond: Callable[[list[PartitionRead]], Response],
    ) -> Response | DeferredAnswer[Response] | Coroutine[Any, Any, Response]:
        """Answer now, later, or after a read from the disk."""
        poll = None
        if plan.is_follower:
            poll = self._followers.begin(plan, self._find, context.peer)

        seen: list[PartitionRead] = []

        def read_now() -> list[PartitionRead]:
            seen[:] = self._read_all(plan, seen)
            return list(seen)

        def look() -> list[PartitionRead] | None:
            """Return the response; None if the fetch must wait."""
            if poll is not None:
                poll.wake()
                if self._has_all(plan):
                    return None
            reads = read_now()
            return None if _must_wait(plan, reads, poll) else reads

        def made(reads: list[PartitionRead]) -> list[PartitionRead]:
            """What is answered: told is what was read, and not what happens while a disk is
            waited for."""
            return self._read_all(plan) if poll is not None and poll.complete() else reads

        def answer(reads: list[PartitionRead]) -> Response:
            for read in reads:
                if read.is_throttled:
                    self._throttles.leader.spend(read.size_bytes)
            return respond(reads)

        reads = look()
        if reads is not None:
            reads = made(reads)
            cold = [read for read in reads if read.is_cold]
            return self._warm(cold, reads, answer) if cold else answer(reads)
        later: DeferredAnswer[Response] = DeferredAnswer()

        def try_complete() -> bool:
            again = look()
            if again is None:
                if poll is not None and poll.woken:
                    self._followers.wait_also(operation, poll)
                return False
            later.complete(answer(made(again)))
            return True

        operation = self._waiting.park(
            self._keys(plan, poll),
            context.received_ms + plan.max_wait_ms,
            try_complete,
            lambda: later.complete(answer(made(read_now()))),
            owner=context.peer,
            just_asked=True,
        )
        return later

    def quietness(self, session: Session) -> QuietPartitions:
        """Return the memory of a follower's session."""
        memory = session.memory
        if not isinstance(memory, QuietPartitions):
            memory = session.memory = QuietPartitions(session, self._waiting)
        return memory

    def _find(self, wanted: PartitionFetch) -> PartitionRuntime | None:
        """Return the partition if it is here, the caller may read it, and its topic id matches."""
        if wanted.error_code != ErrorCode.NONE:
            return None
        partition = self._partitions.find(wanted.topic, wanted.partition)
        if partition is None or not _is_of(partition, wanted.topic_id):
            return None
        return partition

    def _has_all(self, plan: FetchPlan) -> bool:
        """Whether a read for a follower would certainly find nothing to answer with. HOT.

        Half of all looks are like that: the follower asks for what comes next."""
        if plan.max_wait_ms <= 0 or plan.min_bytes <= 0 or plan.max_bytes < 0 or not plan.wanted:
            return False
        for wanted in plan.wanted:
            partition = self._find(wanted)
            leading = None if partition is None else partition.replica.leading
            follower = None if leading is None else leading.followers.get(plan.replica_id)
            if partition is None or leading is None or follower is None:
                return False
            if (
                # Otherwise its position was not found to be good in this leader epoch.
                follower.asked is not wanted
                or wanted.max_bytes < 0
                or wanted.offset != partition.replica.log_end_offset
                or follower.told_watermark < leading.watermark_due
                or not partition.is_open
            ):
                return False
        return True

    def _keys(self, plan: FetchPlan, poll: FollowerPoll | None) -> list[Hashable]:
        found = [self._find(wanted) for wanted in plan.wanted]
        keys = [
            one.append_key if plan.sees_log_end else one.watermark_key
            for one in found
            if one is not None
        ]
        if poll is not None:
            keys += poll.keys
        return keys

    def _read_all(self, plan: FetchPlan, seen: Sequence[PartitionRead] = ()) -> list[PartitionRead]:
        """``seen``: results of an earlier read; a consumer's partitions without changes are not
        read again."""
        budget = FetchBudget(min(plan.max_bytes, self.fetch_max_bytes))
        reads = []
        may_stand = bool(seen) and not plan.sees_log_end and plan.nearest is None
        for number, wanted in enumerate(plan.wanted):
            if may_stand and self._stands(plan, seen[number]):
                reads.append(seen[number])
                continue
            read = self._read_one(plan, wanted, budget)
            budget.spend(read.size_bytes)
            reads.append(read)
        return reads

    def _stands(self, plan: FetchPlan, seen: PartitionRead) -> bool:
        """Whether a consumer's empty result is certainly still valid, including its offsets.

        It costs a tenth of a read: one record for one of a thousand partitions wakes the
        request."""
        wanted = seen.wanted
        watermark = seen.high_watermark
        if seen.error_code is not ErrorCode.NONE or wanted.offset != watermark:
            return False
        partition = self._partitions.find(wanted.topic, wanted.partition)
        if partition is None or not partition.is_open or not plan.zstd_allowed:
            return False
        replica = partition.replica
        return (
            # Otherwise a transaction was open, which may have ended since.
            seen.last_stable_offset == watermark == replica.high_watermark
            and seen.log_start_offset == partition.log.log_start_offset
            and replica.leading is not None
            and wanted.last_fetched_epoch == NO_EPOCH
            and wanted.current_leader_epoch in (NO_EPOCH, replica.leader_epoch)
            and _is_of(partition, wanted.topic_id)
        )

    def _read_one(
        self, plan: FetchPlan, wanted: PartitionFetch, budget: FetchBudget
    ) -> PartitionRead:
        if wanted.error_code != ErrorCode.NONE:
            return PartitionRead(
                wanted,
                wanted.error_code,
                aborted=None if plan.is_follower else [],
                log_start_offset=self._start_for(plan, wanted),
            )
        if wanted.max_bytes < 0 or plan.max_bytes < 0:
            return PartitionRead(wanted, ErrorCode.INVALID_REQUEST)
        partition = self._partitions.find(wanted.topic, wanted.partition)
        if partition is None:
            error = self._partitions.error_for_missing(wanted.topic, wanted.partition)
            return PartitionRead(wanted, error, aborted=[])
        if not _is_of(partition, wanted.topic_id):
            return PartitionRead(wanted, ErrorCode.INCONSISTENT_TOPIC_ID)
        max_bytes, at_least_one = budget.allow(wanted.max_bytes)
        is_throttled = plan.is_follower and self._throttles.covers_led(partition, plan.replica_id)
        if is_throttled and self._throttles.leader.hold_ms() > 0:
            # Handled like an empty partition: the follower fetches again.
            max_bytes, at_least_one = 0, False
        read = read_partition(partition, plan, wanted, max_bytes, at_least_one)
        read.is_throttled = is_throttled
        if plan.nearest is not None and not read.has_news:
            read.preferred_replica = plan.nearest(partition, wanted.offset)
            if read.preferred_replica >= 0:
                read.records = read.aborted = None
        return read

    def _start_for(self, plan: FetchPlan, wanted: PartitionFetch) -> int:
        """Return the leader's log start for a follower whose offset is out of range: a new replica
        never gets records that were deleted before. -1 for any other answer."""
        if not plan.is_follower or wanted.error_code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            return -1
        partition = self._partitions.find(wanted.topic, wanted.partition)
        return -1 if partition is None else partition.log_start_offset

    async def _warm(
        self,
        cold: list[PartitionRead],
        reads: list[PartitionRead],
        respond: Callable[[list[PartitionRead]], Response],
    ) -> Response:
        """Let a worker thread wait for the disk: sendfile of pages that are not in memory would
        block the event loop, and with it every connection (hazard P-06)."""
        for read in cold:
            assert read.records is not None
            self.cold_read_count += 1
            try:
                await self._offload.run(read.records.read)
            except OSError as error:
                self._on_unreadable(read, error)
        return respond(reads)

    def _on_unreadable(self, read: PartitionRead, error: OSError) -> None:
        """The disk of one partition has failed: answer the other partitions."""
        assert read.records is not None
        path, read.records = read.records.file.path, None
        read.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._partitions.find(read.wanted.topic, read.wanted.partition)
        if partition is not None:
            partition.log.home.health.judge(f"cannot read {path}", error)


def _must_wait(plan: FetchPlan, reads: list[PartitionRead], poll: FollowerPoll | None) -> bool:
    readable_bytes = 0
    has_news = False
    for read in reads:
        readable_bytes += read.size_bytes
        has_news = has_news or read.has_news
    count = len(reads) if poll is None else len(reads) + poll.quiet_count
    progress = FetchProgress(count, readable_bytes, has_news)
    if not must_wait(progress, plan.max_wait_ms, plan.min_bytes):
        return False
    return poll is None or not poll.owes_news()


def _is_of(partition: PartitionRuntime, topic_id: Uuid) -> bool:
    """Whether the partition belongs to that topic, not to an earlier one of the same name."""
    known = partition.log.topic_id
    return known is None or topic_id in (ZERO_UUID, known)
