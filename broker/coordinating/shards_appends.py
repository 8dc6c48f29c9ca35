"""One shard's appends that are not committed yet: in log order, with one parked request for all.

The high watermark passes appends in their order, so only the first is ever asked about; a thousand
commits on their way cost one parked waiter and not a thousand that are all woken by each move.
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

# What a coordinator's caller is told of an append that failed: clients look for the coordinator
# again, or come again. Sizes stay as they are: the machine knows what was too large.
_AS_COORDINATOR = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    # It has been appended, and this broker has not led ever since.
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
    """Owned by one shard, which tells what has been written and hears what came of it.

    ``on_settled(token, error)`` comes exactly once for each, ``on_overdue(token)`` before it or
    not at all; neither after ``close`` and neither from within ``add``."""

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
        """The outcome of an append up to that offset; None while it is open.

        Too few replicas after the append is no outcome: the records are in the log and count when
        a replica comes back (hazard R-20). Waiting requests end at their deadline."""
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
        # Those that are overdue stand first. When all are, the clock has nothing to say.
        if self._overdue_count < len(self._open):
            deadline_ms = self._open[self._overdue_count].deadline_ms
        else:
            deadline_ms = self._clock.now_ms() + self._timeout_ms
        keys = (self._partition.watermark_key, self._partition.flush_key)
        self._waiter = self._waiting.park(
            keys, deadline_ms, self._settle, self._on_deadline, just_asked=True
        )

    def _settle(self) -> bool:
        """Report what is known by now; True when nothing is open any more."""
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
    """A new machine that knows how much the partition takes at once."""
    machine = make_machine()
    machine.limit_batches(partial(batch_bytes_max, partition))
    return machine


def encoded(append: Append, wall_ms: int, codec: Codec) -> bytearray:
    """The append as one batch; writable, as the log stamps its offset and epoch into it."""
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
