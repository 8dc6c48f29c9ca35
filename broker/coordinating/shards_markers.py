"""Writes transaction markers into a shard's partition, in order with its own appends, and reports
them to its machine when they are committed.

A marker that is written while the shard loads is read with the rest of the log; a later one is
followed like an append of the machine. So each is reported exactly once, in the order of the log: a
commit before it is settled first (hazard T-23).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.control import ControlType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.coordinating.shards_machine import Machine
    from ottla.broker.partitions.append_outcome import AppendOutcome
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.coordinator.effects import Moment, Token
    from ottla.protocol.records.control import TransactionMarker


class MarkerShard(Protocol):
    """The parts of a shard that this module uses."""

    @property
    def partition(self) -> PartitionRuntime: ...

    @property
    def machine(self) -> Machine: ...

    def check(self) -> ErrorCode: ...

    def follow(self, token: Token, written: AppendOutcome) -> None: ...

    def report(self, machine: Any, ask: Callable[[Moment], Sequence[object]]) -> object: ...


class _Written(NamedTuple):
    """``marker`` is None if none was written, so that there is no report."""

    marker: TransactionMarker | None
    done: Callable[[ErrorCode], object]


class ShardMarkers:
    """Owned by one shard. Its machine never sees these tokens, which are negative."""

    def __init__(self, shard: MarkerShard) -> None:
        self._shard = shard
        self._written: dict[Token, _Written] = {}
        self._last_token = 0

    def write(
        self,
        marker: TransactionMarker,
        transaction_version: int,
        done: Callable[[ErrorCode], object],
    ) -> None:
        """Write a marker into the partition of a shard that passed ``check``.

        ``done`` is called once: with success when it is committed and applied, with a timeout
        while the outcome is unknown, or with the reason of a refusal."""
        shard = self._shard
        machine = shard.machine
        written = shard.partition.write_marker(marker, transaction_version)
        error = written.error_code
        if error is ErrorCode.NONE and (shard.machine is not machine or shard.check()):
            # A disk failure has removed the partition.
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error is not ErrorCode.NONE:
            done(error)
            return
        self._last_token -= 1
        is_new = written.base_offset >= 0
        self._written[self._last_token] = _Written(marker if is_new else None, done)
        shard.follow(self._last_token, written)

    def settled(self, token: Token, error: ErrorCode) -> None:
        """The append of that token is committed, or its outcome will stay unknown."""
        marker, done = self._written.pop(token)
        if marker is not None and error is ErrorCode.NONE:
            machine = self._shard.machine
            self._shard.report(machine, partial(_tell, machine, marker))
        done(error)

    def overdue(self, token: Token) -> None:
        """Answer the waiter with a timeout; the machine is still informed of the commit."""
        marker, done = self._written[token]
        self._written[token] = _Written(marker, _ignore_outcome)
        done(ErrorCode.REQUEST_TIMED_OUT)

    def fail_all(self) -> None:
        """The shard has ended, or reads its log again: fail the waiting markers."""
        written, self._written = self._written, {}
        for one in written.values():
            one.done(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _tell(machine: Machine, marker: TransactionMarker, moment: Moment) -> Sequence[object]:
    is_commit = marker.control_type is ControlType.COMMIT
    machine.replay_marker(marker.producer_id, marker.producer_epoch, is_commit, moment)
    return ()


def _ignore_outcome(_error: ErrorCode) -> None:
    """The waiter already has its answer."""
