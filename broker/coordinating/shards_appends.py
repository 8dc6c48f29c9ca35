"""One shard's uncommitted appends, in log order, with one parked request for all.

The high watermark passes appends in their order, so only the first one is checked: a thousand
pending commits need one parked waiter, instead of a thousand that every move wakes.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.builder import BatchOptions, encode_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.coordinating.shards_machine import M
    from ottla.broker.engine.purgatory import DelayedOperation, Purgatory
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.coordinator.effects import Append, Token
    from ottla.protocol.ports import Clock
    from ottla.protocol.records.compression import Codec

# Errors for callers whose append failed: clients look for the coordinator again, or retry. Size
# errors are kept: the machine knows which record was too large.
_AS_COORDINATOR = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    # It was appended, and this broker has lost the leadership since.
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


class _Open(NamedTuple):
    token: Token
    required_offset: int
    needs_flush: bool
    deadline_ms: float


class OpenAppends:
    """Owned by one shard, which adds its appends and receives their outcomes.

    ``on_settled(token, error)`` is called exactly once for each append, ``on_overdue(token)`` at
    most once and before it; neither after ``close`` and neither from within ``add``."""

    def __init__(
        self,
        partition: PartitionRuntime,
        waiting: Purgatory,
        clock: Clock,
        timeout_ms: float,
        on_settled: Callable[[Token, ErrorCode], object],
        on_overdue: Callable[[Token], object],
    ) -> None:
        self._partition = partition
        self._leader_epoch = partition.leader_epoch
        self._waiting = waiting
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._on_settled = on_settled
        self._on_overdue = on_overdue
        self._open: deque[_Open] = deque()
        self._overdue_count = 0
        self._waiter: DelayedOperation | None = None
        self._is_at_deadline = False

    def __len__(self) -> int:
        return len(self._open)

    def outcome(self, required_offset: int, *, needs_flush: bool) -> ErrorCode | None:
        """Return the outcome of an append up to that offset; None while it is open.

        Too few replicas after the append is not an outcome: the records are in the log and count
        when a replica returns (hazard R-20). Waiting requests end at their deadline."""
        partition = self._partition
        state = partition.replication_state(required_offset, self._leader_epoch)
        if state is None or state is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            return None
        if state is not ErrorCode.NONE:
            return state
        log = partition.log
        if not needs_flush or log.recovery_point >= required_offset:
            return ErrorCode.NONE
        is_over = log.home.health.failure is not None or log.refusal is not None
        return ErrorCode.REQUEST_TIMED_OUT if is_over else None

    def add(self, token: Token, required_offset: int, *, needs_flush: bool) -> None:
        """Follow an append whose outcome is open."""
        deadline_ms = self._clock.now_ms() + self._timeout_ms
        self._open.append(_Open(token, required_offset, needs_flush, deadline_ms))
        if self._waiter is None and not self._is_at_deadline:
            self._park()

    def close(self) -> None:
        """Stop following all appends."""
        self._open.clear()
        self._overdue_count = 0
        if self._waiter is not None:
            self._waiter.cancel()
            self._waiter = None

    def _park(self) -> None:
        # Overdue appends come first. If all are overdue, the clock need not be checked.
        if self._overdue_count < len(self._open):
            deadline_ms = self._open[self._overdue_count].deadline_ms
        else:
            deadline_ms = self._clock.now_ms() + self._timeout_ms
        keys = (self._partition.watermark_key, self._partition.flush_key)
        self._waiter = self._waiting.park(
            keys, deadline_ms, self._settle, self._on_deadline, just_asked=True
        )

    def _settle(self) -> bool:
        """Report the known outcomes; True if no append is open any more."""
        while self._open:
            first = self._open[0]
            error = self.outcome(first.required_offset, needs_flush=first.needs_flush)
            if error is None:
                return False
            self._open.popleft()
            self._overdue_count = max(0, self._overdue_count - 1)
            self._on_settled(first.token, error)
        self._waiter = None
        return True

    def _on_deadline(self) -> None:
        self._waiter = None
        # A callback that appends must not park a second waiter.
        self._is_at_deadline = True
        now_ms = self._clock.now_ms()
        while self._overdue_count < len(self._open):
            late = self._open[self._overdue_count]
            if late.deadline_ms > now_ms:
                break
            self._overdue_count += 1
            self._on_overdue(late.token)
        settled = self._settle()
        self._is_at_deadline = False
        if not settled:
            self._park()


def as_coordinator(error: ErrorCode) -> ErrorCode:
    """The coordinator's error for an error of the partition."""
    return _AS_COORDINATOR.get(error, error)


def batch_bytes_max(partition: PartitionRuntime) -> int:
    """The largest batch that the partition accepts, bytes."""
    rules = partition.settings.append_rules
    return min(rules.max_message_bytes, rules.segment_bytes)


def limited(make_machine: Callable[[], M], partition: PartitionRuntime) -> M:
    """Return a new machine with the size limit of the partition's batches."""
    machine = make_machine()
    machine.limit_batches(partial(batch_bytes_max, partition))
    return machine


def encoded(append: Append, wall_ms: int, codec: Codec) -> bytearray:
    """Encode the append as one batch; writable, because the log writes its offset and epoch into
    it."""
    writer = append.writer
    options = BatchOptions(
        codec=codec,
        producer_id=writer.producer_id,
        producer_epoch=writer.producer_epoch,
        is_transactional=writer.is_transactional,
    )
    return bytearray(
        encode_batch([(wall_ms, key, value, ()) for key, value in append.records], options)
    )
