"""Produce requests that cannot be answered at once: replication (acks=all) and due flushes.

An append that makes ``flush.messages`` or ``flush.ms`` due is acknowledged after that flush, so a
power cut takes no more than the setting allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replica.append import AppendPlan, ReadReason, judge_produced
from ottla.broker.replica.record_checks import RecordErrors, look_at_length, look_here
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
)
from ottla.protocol.records.batch import RecordBatch

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.broker.partitions.append_outcome import AppendOutcome
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.replica.verification import Guard
    from ottla.protocol.messages.produce import ProduceResponse
    from ottla.protocol.ports import Clock, Offload

    Judged = RecordBatch | AppendPlan
    """A batch that may be written as it is, or what is to become of one."""

_NONE = ErrorCode.NONE
_NOT = ReadReason.NOT
ACKS_ALL = -1
VALID_ACKS = (ACKS_ALL, 0, 1)
# From this version on the response names the leader.
LEADER_VERSION = 10
# From this version on topics are named by their ids.
TOPIC_ID_VERSION = 13
# The last code also says that the outcome of an append is unknown because the leader changed.
_MOVED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.REQUEST_TIMED_OUT,
)


@dataclass(slots=True)
class ProducePart:
    """One partition of a produce request that may be written, and its place in the response."""

    partition: PartitionRuntime
    plan: AppendPlan
    answer: PartitionProduceResponse
    record_errors: RecordErrors = ()
    # Set if the coordinator of its transaction must be asked before the append.
    guard: Guard | None = None

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        batch = self.plan.batch
        return batch is not None and batch.is_transactional

    @property
    def needs_look(self) -> bool:
        """Whether the records must be read before the append, which only a leader does."""
        return self.plan.look is not _NOT and self.partition.replica.is_leader

    @property
    def is_unread(self) -> bool:
        """Whether the records should have been read and were not."""
        return self.plan.look is not _NOT

    @staticmethod
    def of(
        partition: PartitionRuntime,
        judged: RecordBatch | AppendPlan,
        answer: PartitionProduceResponse,
    ) -> ProducePart:
        """Return the part for validated records."""
        plan = judged if isinstance(judged, AppendPlan) else AppendPlan(_NONE, None, judged)
        return ProducePart(partition, plan, answer)

    def refuse(self, error: ErrorCode, message: str | None = None) -> None:
        """Refuse the part for a reason from outside the partition."""
        is_told = message is not None
        if self.plan.batch is not None:
            self.partition.refusals.note(self.plan.batch, error)
        self.plan = AppendPlan(error, message, is_early=True, is_told=is_told)
        self.guard = None

    def look_here(self, wall_ms: int) -> None:
        """Validate the records, unless that takes long: then ``needs_look`` is True."""
        inside = look_here(self.plan, self.partition.settings.append_rules, wall_ms)
        if inside is not None:
            self.plan, self.record_errors = inside

    async def look(self, wall_ms: int, offload: Offload) -> None:
        """Let a worker thread read the records and convert them as the topic requires:
        decompression on the event loop would block every connection."""
        rules = self.partition.settings.append_rules
        self.plan, self.record_errors = await offload.run(look_at_length, self.plan, rules, wall_ms)


def append_at_once(
    partition: PartitionRuntime, records: memoryview, api_version: int, acks: int, clock: Clock
) -> RecordBatch | tuple[ProducePart, AppendOutcome] | None:
    """Validate and append the records of a request for one partition, if that needs no waiting.
    HOT.

    Returns the batch if it was appended with its producer's times, otherwise the parts of its
    answer. Returns None, with no change, if a worker must read the records or the transaction
    coordinator must be asked."""
    rules, wall_ms = partition.settings.append_rules, clock.wall_ms()
    judged = judge_produced(records, rules, api_version, wall_ms)
    if isinstance(judged, RecordBatch):
        written = partition.append(judged, acks)
        if isinstance(written, RecordBatch):
            return written
        return ProducePart.of(partition, judged, PartitionProduceResponse()), written
    part = ProducePart(partition, judged, PartitionProduceResponse())
    if part.needs_look:
        part.look_here(wall_ms)
    if part.is_unread or part.is_transactional:
        return None
    written = partition.append(part.plan, acks)
    return written if isinstance(written, RecordBatch) else (part, written)


@dataclass(slots=True)
class PendingProduce:
    """An append that is not acknowledged yet, and the conditions it waits for.

    ``error`` is the outcome once it is settled."""

    partition: PartitionRuntime
    required_offset: int
    leader_epoch: int
    needs_replication: bool
    needs_flush: bool
    error: ErrorCode = _NONE

    @property
    def keys(self) -> list[Hashable]:
        partition = self.partition
        if self.needs_flush:
            return [partition.watermark_key, partition.flush_key]
        return [partition.watermark_key]

    def is_settled(self) -> bool:
        """Whether the outcome is known."""
        if self.needs_replication:
            error = self.partition.replication_state(self.required_offset, self.leader_epoch)
            if error is None:
                return False
            if error is not _NONE:
                self.fail(error)
                return True
        elif self.partition.is_becoming_leader:
            return False
        if not self.needs_flush:
            return True
        log = self.partition.log
        if log.recovery_point >= self.required_offset:
            return True
        if log.home.health.failure is None and log.refusal is None:
            return False
        # No flush will follow: the disk has failed, or the log was deleted, or truncated by
        # another leader. The codes for that mean "not stored" to clients.
        self.fail(ErrorCode.REQUEST_TIMED_OUT)
        return True

    def fail(self, error: ErrorCode) -> None:
        """Set an error. After an append only codes that leave the outcome open are allowed (hazard
        R-20): REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
        self.error = error


def pending_produce(
    flushes: Flushes,
    partition: PartitionRuntime,
    acks: int,
    required_offset: int,
    leader_epoch: int,
) -> PendingProduce | None:
    """Return the conditions of a new append's acknowledgement; None if it is acknowledged at once.

    Starts the flush that is due after it."""
    if partition.is_open and not partition.log.settings.asks_for_flushes:
        # The usual case: it can only wait for the watermark.
        if acks != ACKS_ALL or partition.replica.high_watermark >= required_offset:
            return None
        return PendingProduce(partition, required_offset, leader_epoch, True, False)
    needs_replication = acks == ACKS_ALL and (
        partition.replication_state(required_offset, leader_epoch) is not _NONE
    )
    needs_flush = partition.flush_is_due
    if needs_flush:
        flushes.start(partition)
    if not (needs_replication or needs_flush or partition.is_becoming_leader):
        return None
    return PendingProduce(partition, required_offset, leader_epoch, needs_replication, needs_flush)


def add_leaders(metadata: MetadataCache, listener: str, response: ProduceResponse) -> None:
    """Name the current leader in the response (KIP-951)."""
    leaders = set()
    for topic in response.responses:
        for part in topic.partition_responses:
            if part.error_code in _MOVED:
                leader, leader_epoch = metadata.leader_of(topic.name, part.index)
                part.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=leader_epoch)
                leaders.add(leader)
    if leaders:
        response.node_endpoints = [
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in metadata.endpoints(listener)
            if node.node_id in leaders
        ]


class Flushes:
    """Runs the flushes that appends have made due, one at a time for each partition."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._running: set[PartitionRuntime] = set()
        self._asked: set[PartitionRuntime] = set()

    def start(self, partition: PartitionRuntime) -> None:
        """Flush soon; appends during a flush cause another one."""
        self._asked.add(partition)
        if partition not in self._running:
            self._running.add(partition)
            self._tasks.spawn(f"flush {partition.partition}", self._run(partition))

    async def _run(self, partition: PartitionRuntime) -> None:
        try:
            # Not "while a flush is due": after the last flush too few records may be left for that,
            # but appends since then wait for a flush.
            while partition in self._asked:
                self._asked.discard(partition)
                await partition.flush()
        except KafkaError:
            # The directory is offline; the flush has failed the parked requests.
            return
        finally:
            self._asked.discard(partition)
            self._running.discard(partition)
