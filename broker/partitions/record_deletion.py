"""DeleteRecords on followers: possible next leaders delete the records, too (KIP-107).

A follower learns its leader's log start with the response to its next fetch, and reports its own
with the fetch after. A leader that answered earlier and died would be followed by one that shows
the deleted records again (hazard S-19).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.partitions.request_outcome import await_all
from ottla.coordinator.metadata.image import INTERNAL_TOPICS
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from ottla.broker.engine.purgatory import OperationOwner, Purgatory
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.protocol.messages.delete_records import DeleteRecordsPartitionResult


class PendingDeletion(NamedTuple):
    """One partition whose records before the low watermark of the response are deleted."""

    partition: PartitionRuntime
    answer: DeleteRecordsPartitionResult

    @property
    def keys(self) -> list[Hashable]:
        return [self.partition.start_key]

    def is_settled(self) -> bool:
        """Whether the outcome is known; an error is put into the response."""
        leading = self.partition.replica.leading
        if leading is None:
            # The current leader may not know of the deletion.
            self.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return True
        # In a new epoch every replica has to report its log start again.
        is_forgotten = leading.is_forgotten_before(self.answer.low_watermark)
        return self.partition.is_open and is_forgotten

    def fail(self, error: ErrorCode) -> None:
        """Set an error. The client must retry: records that were deleted here stay deleted."""
        self.answer.error_code = error
        self.answer.low_watermark = -1


async def delete_before(partition: PartitionRuntime, offset: int) -> int:
    """Delete all records before an offset (-1: the high watermark), durably.

    Returns the log start offset. Raises KafkaError."""
    error = partition.check_leader_epoch(-1)
    if error is not ErrorCode.NONE:
        raise KafkaError(error)
    high_watermark = partition.replica.high_watermark
    target = high_watermark if offset == -1 else offset
    if not 0 <= target <= high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is not in 0..{high_watermark}")
    low = await partition.log.delete_records_before(target)
    leading = partition.replica.leading
    if leading is not None:
        leading.promise_start(low)
    partition.log_was_cut()
    return low


def refusal_of(partition: PartitionRuntime) -> ErrorCode:
    """Return why clients may not delete records of that partition, None if they may.

    Coordinators need every record of the internal topics, and readers of a topic that is only
    compacted rely on the newest record of each key. Only the leader can tell the latter:
    another broker may not know the current settings yet."""
    if partition.partition.topic in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    moved = partition.check_leader_epoch(-1)
    if moved is not ErrorCode.NONE:
        return moved
    settings = partition.settings
    if settings.compaction is not None and not settings.policies:
        return ErrorCode.POLICY_VIOLATION
    return ErrorCode.NONE


def await_deletions(
    waiting: Purgatory,
    pending: Sequence[PendingDeletion],
    deadline_ms: float,
    finish: Callable[[], object],
    owner: OperationOwner | None,
) -> None:
    """Call ``finish`` once every partition is settled or the deadline has passed."""
    for one in pending:
        leading = one.partition.replica.leading
        if leading is not None:
            # Answer requests that wait for records at once.
            leading.greet()
            one.partition.wake_followers()
    await_all(waiting, pending, deadline_ms, finish, owner)
