"""Transactions on the leader of a partition: which producers may begin one, and how they end.

The coordinator of the transaction writes a marker, or an operator who ends a hanging one (KIP-664);
it is acknowledged when every in-sync replica has it. It may arrive twice, late, or from a replaced
coordinator: the partition's log shows which (hazards T-15, T-16).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.broker.coordinating.shards_appends import OpenAppends
from ottla.broker.engine.deferred import DeferredAnswer, gathered
from ottla.broker.replica.verification import TransactionClaim, is_open
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.protocol.records.batch import NO_SEQUENCE
from ottla.protocol.records.control import ControlType, TransactionMarker

if TYPE_CHECKING:
    from ottla.broker.coordinating.groups import GroupCoordinator
    from ottla.broker.engine.purgatory import Purgatory
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.partitions import Partitions
    from ottla.broker.partitions.produces import Flushes
    from ottla.broker.replica.verification import Guard
    from ottla.coordinator.effects import Token
    from ottla.protocol.messages.write_txn_markers import WritableTxnMarker
    from ottla.protocol.ports import Clock

    class Identity(Protocol):
        """A batch of the producer, or a request."""

        @property
        def producer_id(self) -> int: ...

        @property
        def producer_epoch(self) -> int: ...


# request.timeout.ms between brokers; a coordinator retries.
COMMIT_TIMEOUT_MS = 30_000.0
_NONE = ErrorCode.NONE
# Later questions about that producer and epoch get the same answer.
_FOR_EVER = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.PRODUCER_FENCED,
    }
)


def begin_verification(
    partition: PartitionRuntime,
    producer_id: int,
    producer_epoch: int,
    now_ms: float,
    *,
    base_sequence: int = NO_SEQUENCE,
    adds: bool = False,
    transactional_id: str = "",
) -> Guard | ErrorCode | None:
    """Return the guard with which to ask the coordinator, None if not needed, or the refusal.

    ``adds``: the question makes the partition part of the transaction (version 2)."""
    leading = partition.replica.leading
    if leading is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    state = partition.replica.history.producers.get(producer_id)
    claim = TransactionClaim(producer_id, producer_epoch, base_sequence, adds, transactional_id)
    return leading.verifications.begin(claim, state, now_ms)


def note_owner(
    partition: PartitionRuntime, producer: Identity, transactional_id: str, now_ms: float
) -> None:
    """The coordinator has confirmed that the producer id belongs to the transactional id. Other
    clients that may write to the topic cannot join its transaction with that producer id."""
    leading = partition.replica.leading
    if leading is not None:
        claim = TransactionClaim(
            producer.producer_id, producer.producer_epoch, transactional_id=transactional_id
        )
        leading.verifications.own(claim, now_ms)


def coordinator_epoch(partition: PartitionRuntime, producer_id: int) -> int:
    """The epoch of the newest coordinator that ended a transaction of the producer here, or -1."""
    state = partition.replica.history.producers.get(producer_id)
    return -1 if state is None else state.coordinator_epoch


def conclude(
    partition: PartitionRuntime, producer: Identity, guard: Guard, error: ErrorCode
) -> ErrorCode:
    """Apply the coordinator's answer and return the verdict; the caller appends in the same step.

    1. A producer ends its transaction and begins the next one. The leader sets a guard and asks the
       coordinator, which answers only after the markers of the last transaction are written.
    2. Such a marker arrives here and removes the guard.
    3. The coordinator confirms, but its guard no longer exists.
    So the producer has to retry: its transaction is valid."""
    if error is _NONE:
        state = partition.replica.history.producers.get(producer.producer_id)
        if guard.confirm() or (state is not None and is_open(state, producer.producer_epoch)):
            return _NONE
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if error in _FOR_EVER and partition.replica.leading is not None:
        partition.replica.leading.verifications.forget(producer.producer_id, guard)
    return error


class MarkerWriter:
    """Owned by the server; writes markers of coordinators, from the network or this broker."""

    def __init__(
        self,
        partitions: Partitions,
        groups: GroupCoordinator,
        flushes: Flushes,
        waiting: Purgatory,
        clock: Clock,
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._flushes = flushes
        self._waiting = waiting
        self._clock = clock

    def write(self, request: WriteTxnMarkersRequest) -> DeferredAnswer[WriteTxnMarkersResponse]:
        """Write all markers now; answer when the outcome of each is known."""
        written = [self._write_marker(marker) for marker in request.markers]
        return gathered(written, lambda results: WriteTxnMarkersResponse(markers=results))

    def _write_marker(self, marker: WritableTxnMarker) -> DeferredAnswer[WritableTxnMarkerResult]:
        control_type = ControlType.COMMIT if marker.transaction_result else ControlType.ABORT
        wanted = TransactionMarker(
            marker.producer_id, marker.producer_epoch, control_type, marker.coordinator_epoch
        )
        places = [
            (topic.name, index) for topic in marker.topics for index in topic.partition_indexes
        ]
        outcomes = [
            self._write_to(name, index, wanted, marker.transaction_version)
            for name, index in places
        ]

        def build(errors: list[ErrorCode]) -> WritableTxnMarkerResult:
            left = iter(errors)
            topics = [
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[
                        WritableTxnMarkerPartitionResult(index, next(left))
                        for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ]
            return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)

        return gathered(outcomes, build)

    def _write_to(
        self, topic: str, index: int, marker: TransactionMarker, transaction_version: int
    ) -> DeferredAnswer[ErrorCode]:
        outcome: DeferredAnswer[ErrorCode] = DeferredAnswer()
        partition = self._partitions.find(topic, index)
        if partition is None:
            outcome.complete(self._partitions.error_for_missing(topic, index))
            return outcome
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            # It would end no transaction.
            outcome.complete(ErrorCode.INVALID_PRODUCER_EPOCH)
            return outcome
        if topic == self._groups.topic:
            shard = self._groups.shard_of(partition)
            if shard is not None and shard.check() is _NONE:
                shard.markers.write(marker, transaction_version, outcome.complete)
                return outcome
            # Not loaded yet: the marker will be read with the rest of the log.
        written = partition.write_marker(marker, transaction_version)
        if written.error_code is not _NONE:
            outcome.complete(written.error_code)
        else:
            self._follow(partition, written.next_offset, outcome)
        return outcome

    def _follow(
        self, partition: PartitionRuntime, next_offset: int, outcome: DeferredAnswer[ErrorCode]
    ) -> None:
        """Complete with the outcome of an append up to that offset."""

        def give_up(_token: Token) -> None:
            appends.close()
            outcome.complete(ErrorCode.REQUEST_TIMED_OUT)

        appends = OpenAppends(
            partition,
            self._waiting,
            self._clock,
            COMMIT_TIMEOUT_MS,
            lambda _token, error: outcome.complete(error),
            give_up,
        )
        if needs_flush := partition.flush_is_due:
            self._flushes.start(partition)
        known = appends.outcome(next_offset, needs_flush=needs_flush)
        if known is None:
            appends.add(0, next_offset, needs_flush=needs_flush)
        else:
            outcome.complete(known)
