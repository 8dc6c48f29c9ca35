"""Serves one fetch over many partitions: byte budget, enough data or waiting for it.

The steps are Kafka's: read every partition, count the readable bytes, answer at once if the wait
is over before it began (no wait asked, nothing asked, enough bytes, an error), else park. A wake-up
reads again; only the last read is answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.replica.fetching import FetchBudget, FetchProgress, must_wait
from ottla.broker.runtime.follower_reads import FollowerReads
from ottla.broker.runtime.later import Later
from ottla.broker.runtime.partition_read import FetchPlan, PartitionRead, Wanted
from ottla.broker.runtime.reading import read_partition
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable

    from ottla.broker.context import RequestContext
    from ottla.broker.runtime.partition import PartitionRuntime
    from ottla.broker.runtime.partitions import Partitions
    from ottla.broker.runtime.waiting import Waiting
    from ottla.protocol.ids import Uuid
    from ottla.protocol.ports import Ports

Response = TypeVar("Response")


class Reads:
    """Owned by the server; stateless beside the limit of one answer."""

    def __init__(
        self, partitions: Partitions, waiting: Waiting, ports: Ports, fetch_max_bytes: int
    ) -> None:
        self._partitions = partitions
        self._waiting = waiting
        self._offload = ports.offload
        self._followers = FollowerReads(waiting, ports.clock)
        self.fetch_max_bytes = fetch_max_bytes
        self.cold_read_count = 0

    def fetch(
        self,
        context: RequestContext,
        plan: FetchPlan,
        respond: Callable[[list[PartitionRead]], Response],
    ) -> Response | Later[Response] | Coroutine[Any, Any, Response]:
        """The answer now, later, or after a read that has to wait for the disk."""
        if plan.is_follower:
            self._followers.acknowledge(plan, self._find)

        def answer(reads: list[PartitionRead]) -> Response:
            if plan.is_follower:
                self._followers.note_told(plan, self._find)
            return respond(reads)

        reads = self._read_all(plan)
        if not self._must_wait(plan, reads):
            cold = [read for read in reads if read.is_cold]
            return self._warm(cold, reads, answer) if cold else answer(reads)
        later: Later[Response] = Later()

        def try_complete() -> bool:
            again = self._read_all(plan)
            if self._must_wait(plan, again):
                return False
            later.complete(answer(again))
            return True

        def on_expire() -> None:
            later.complete(answer(self._read_all(plan)))

        self._waiting.park(
            self._keys(plan),
            context.received_ms + plan.max_wait_ms,
            try_complete,
            on_expire,
            owner=context.peer,
            just_asked=True,
        )
        return later

    def _find(self, wanted: Wanted) -> PartitionRuntime | None:
        """The partition, if it is here, may be asked for, and is of the topic that is meant."""
        if wanted.error_code != ErrorCode.NONE:
            return None
        partition = self._partitions.find(wanted.topic, wanted.partition)
        if partition is None or not _is_of(partition, wanted.topic_id):
            return None
        return partition

    def _keys(self, plan: FetchPlan) -> list[Hashable]:
        found = (self._find(wanted) for wanted in plan.wanted)
        return [key for one in found if one is not None for key in _wait_keys(plan, one)]

    def _must_wait(self, plan: FetchPlan, reads: list[PartitionRead]) -> bool:
        readable_bytes = 0
        has_news = False
        for read in reads:
            readable_bytes += read.size_bytes
            has_news = has_news or read.has_news
        progress = FetchProgress(len(reads), readable_bytes, has_news)
        if not must_wait(progress, plan.max_wait_ms, plan.min_bytes):
            return False
        return not (plan.is_follower and self._followers.owes_news(plan, self._find))

    def _read_all(self, plan: FetchPlan) -> list[PartitionRead]:
        budget = FetchBudget(min(plan.max_bytes, self.fetch_max_bytes))
        reads = []
        for wanted in plan.wanted:
            read = self._read_one(plan, wanted, budget)
            budget.spend(read.size_bytes)
            reads.append(read)
        return reads

    def _read_one(self, plan: FetchPlan, wanted: Wanted, budget: FetchBudget) -> PartitionRead:
        if wanted.error_code != ErrorCode.NONE:
            return PartitionRead(wanted, wanted.error_code)
        partition = self._partitions.find(wanted.topic, wanted.partition)
        if partition is None:
            error = self._partitions.error_for_missing(wanted.topic, wanted.partition)
            return PartitionRead(wanted, error)
        if not _is_of(partition, wanted.topic_id):
            return PartitionRead(wanted, ErrorCode.INCONSISTENT_TOPIC_ID)
        max_bytes, at_least_one = budget.allow(wanted.max_bytes)
        return read_partition(partition, plan, wanted, max_bytes, at_least_one)

    async def _warm(
        self,
        cold: list[PartitionRead],
        reads: list[PartitionRead],
        respond: Callable[[list[PartitionRead]], Response],
    ) -> Response:
        """Let a worker wait for the disk: sendfile of pages that are not in memory would stop
        the event loop, and with it every connection (hazard P-06)."""
        for read in cold:
            assert read.records is not None
            self.cold_read_count += 1
            try:
                await self._offload.run(read.records.read)
            except OSError as error:
                self._on_unreadable(read, error)
        return respond(reads)

    def _on_unreadable(self, read: PartitionRead, error: OSError) -> None:
        """The disk has failed under one partition: the others are answered all the same."""
        assert read.records is not None
        path, read.records = read.records.file.path, None
        read.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._partitions.find(read.wanted.topic, read.wanted.partition)
        if partition is not None:
            partition.log.home.health.judge(f"cannot read {path}", error)


def _wait_keys(plan: FetchPlan, partition: PartitionRuntime) -> tuple[Hashable, ...]:
    if plan.is_follower:
        return partition.append_key, partition.news_key
    return (partition.append_key if plan.sees_log_end else partition.watermark_key,)


def _is_of(partition: PartitionRuntime, topic_id: Uuid) -> bool:
    """Whether it is a partition of that topic and not of one that had its name before."""
    known = partition.log.topic_id
    return known is None or topic_id in (ZERO_UUID, known)
