"""Wrong answers: about epochs, to what was appended, and to what comes behind a refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.partitions.append_outcome import refused
from ottla.broker.replica.epochs import EpochEnd
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.replica.epochs import LeaderEpochs
    from ottla.broker.replica.partition import Replica


def ends_waits_with_the_epoch(before: Any) -> Any:
    def replication_state(self: Replica, required_offset: int, leader_epoch: int) -> Any:
        if leader_epoch != self.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return before(self, required_offset, leader_epoch)

    return replication_state


def refuses_while_its_epoch_is_saved(before: Any) -> Any:
    def write(self: PartitionRuntime, plan: Any, acks: int) -> Any:
        if not self.is_open and plan.batch is not None:
            return refused(self.log, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return before(self, plan, acks)

    return write


def excuses_nothing(_before: Any) -> Any:
    return lambda _self, _batch: None


def answers_its_end_for_unknown_epochs(before: Any) -> Any:
    def end_offset_for(self: LeaderEpochs, leader_epoch: int, log_end_offset: int) -> EpochEnd:
        found: EpochEnd = before(self, leader_epoch, log_end_offset)
        if found.leader_epoch != leader_epoch and not found.is_undefined:
            return EpochEnd(leader_epoch, log_end_offset)
        return found

    return end_offset_for
