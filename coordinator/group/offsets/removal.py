"""Deletes offsets: appends tombstones in portions, each one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.effects import NOBODY, LogRecord
from ottla.coordinator.group.offsets.ledger import offset_record
from ottla.coordinator.outbox import Continuation, nothing
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ottla.coordinator.group.offsets.ledger import OffsetLedger
    from ottla.coordinator.outbox import Outbox
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.ids import TopicPartition

# A deletion batch stays far below the size limit of any offsets topic.
DELETIONS_PER_APPEND_MAX = 1_000
DELETION_BYTES_PER_APPEND_MAX = 128 * 1024
# The cost of an append within a slice, as a number of groups or offsets examined.
APPEND_COST = 20

_Batch = dict["TopicPartition", LogRecord]


def _ignore(error: ErrorCode) -> None:
    """Ignore the error: what cannot be deleted now expires later."""


NOBODY_WAITS = Continuation(nothing, _ignore)


@dataclass(frozen=True, slots=True)
class OffsetRemoval:
    """Appends deletions; the caller has checked that the offsets may be deleted."""

    ledger: OffsetLedger
    outbox: Outbox

    def remove_group(
        self,
        group_id: str,
        tombstones: Iterable[LogRecord],
        continuation: Continuation = NOBODY_WAITS,
    ) -> None:
        """Append tombstones for all offsets of a group and, last, those of the group itself.

        The continuation gets the outcome of the last batch, which has the group's records."""
        topic_partitions = sorted(self.ledger.topic_partitions(group_id))
        self._append(group_id, topic_partitions, list(tombstones), continuation)

    def remove(
        self,
        group_id: str,
        topic_partitions: Iterable[TopicPartition],
        continuation: Continuation = NOBODY_WAITS,
    ) -> None:
        """Append tombstones for the offsets of these partitions."""
        self._append(group_id, topic_partitions, [], continuation)

    def _append(
        self,
        group_id: str,
        topic_partitions: Iterable[TopicPartition],
        tombstones: list[LogRecord],
        continuation: Continuation,
    ) -> None:
        batches = list(_batches(group_id, topic_partitions)) or [{}]
        for number, batch in enumerate(batches, 1):
            is_last = number == len(batches)
            records = [*batch.values(), *(tombstones if is_last else ())]
            goes_on = continuation if is_last else NOBODY_WAITS
            if records:
                self.outbox.append(records, self._around(group_id, batch, goes_on))
            else:
                goes_on.on_committed()

    def _around(self, group_id: str, batch: _Batch, continuation: Continuation) -> Continuation:
        ledger = self.ledger
        changes = ledger.begin(group_id, dict.fromkeys(batch).items(), NOBODY)
        assert len(changes) == len(batch), "an offset would stay in memory and not in the log"

        def on_committed() -> None:
            ledger.on_committed(changes)
            continuation.on_committed()

        def on_failed(error: ErrorCode) -> None:
            ledger.on_failed(changes)
            continuation.on_failed(error)

        return Continuation(on_committed, on_failed, continuation.on_overdue)


def _batches(group_id: str, topic_partitions: Iterable[TopicPartition]) -> Iterator[_Batch]:
    batch: _Batch = {}
    size_bytes = 0
    for topic_partition in topic_partitions:
        record = offset_record(group_id, topic_partition, None)
        is_full = size_bytes + len(record.key) > DELETION_BYTES_PER_APPEND_MAX
        if batch and (is_full or len(batch) == DELETIONS_PER_APPEND_MAX):
            yield batch
            batch, size_bytes = {}, 0
        assert len(batch) < DELETIONS_PER_APPEND_MAX
        batch[topic_partition] = record
        size_bytes += len(record.key)
    if batch:
        yield batch
