"""Stores committed offsets and open changes to them.

A change is open from the append of its record until the record is committed, in a transaction until
its marker is written. In whatever order outcomes arrive, a partition ends up with its last change
in the log (T-23): a change that takes effect supersedes earlier ones. Loading from the log is in
loading.py.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING

from ottla.coordinator.effects import NOBODY, LogRecord
from ottla.coordinator.group.common.records import RecordKind, encode_key
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ottla.coordinator.effects import Writer

Values = dict[int, bytes]
"""By partition the values of the log's records. They stay bytes: read a thousand times less often
than written, in a third of the memory of what they say, and nothing for a collector to visit."""


class PendingOffset:
    """One commit, or without value one deletion, that has not taken effect yet."""

    __slots__ = (
        "group_id",
        "is_committed",
        "is_superseded",
        "outcome",
        "topic_partition",
        "value",
        "writer",
    )

    def __init__(
        self, group_id: str, topic_partition: TopicPartition, value: bytes | None, writer: Writer
    ) -> None:
        self.group_id = group_id
        self.topic_partition = topic_partition
        self.value = value
        self.writer = writer
        # Whether the record is committed in the log.
        self.is_committed = False
        # The marker's outcome, if it came first; also False if the offset was deleted since.
        self.outcome: bool | None = None
        # Whether a later record of the partition has taken effect.
        self.is_superseded = False


class OffsetLedger:
    """The committed offsets and open changes of all groups of one shard."""

    def __init__(self) -> None:
        # True while loading, which holds references to the tables.
        self.keeps_empty = False
        self._committed: dict[str, dict[str, Values]] = {}
        # Open changes by group and partition, in log order.
        self._open: dict[str, dict[TopicPartition, list[PendingOffset]]] = {}
        # By producer id the changes that wait for a marker, or will once they are committed.
        self._transactions: dict[int, dict[PendingOffset, None]] = {}

    # Reading.

    def group_ids(self) -> set[str]:
        """The groups that have offsets or open changes."""
        return self._committed.keys() | self._open.keys()

    def visit_ids(self) -> Iterator[str]:
        """Iterate over the present groups, whatever changes in between: some may be deleted by
        then, some occur twice. Only the copy of the ids takes time for all groups at once."""
        open_ids = list(self._open)
        yield from list(self._committed)
        yield from open_ids

    def has_group(self, group_id: str) -> bool:
        """Whether the group is one of ``group_ids``."""
        return group_id in self._committed or group_id in self._open

    def committed(self, group_id: str) -> Mapping[str, Mapping[int, bytes]]:
        """The group's committed values, by topic and partition."""
        return self._committed.get(group_id, {})

    def is_open(self, group_id: str, topic_partition: TopicPartition) -> bool:
        """Whether the partition has an open change."""
        return topic_partition in self._open.get(group_id, ())

    def unstable(self, group_id: str) -> set[TopicPartition]:
        """The partitions that an open transaction may still change (KIP-447)."""
        return {
            topic_partition
            for topic_partition, changes in self._open.get(group_id, {}).items()
            if any(change.writer.is_transactional for change in changes)
        }

    def topic_partitions(
        self, group_id: str, only_topics: frozenset[str] | None = None
    ) -> set[TopicPartition]:
        """The partitions, of these topics or of all, that a deletion has to name."""
        topics = self._committed.get(group_id, {})
        names = topics.keys() if only_topics is None else topics.keys() & only_topics
        topic_partitions = {
            TopicPartition(name, partition) for name in names for partition in topics[name]
        }
        for topic_partition in self._open.get(group_id, ()):
            if only_topics is None or topic_partition.topic in only_topics:
                topic_partitions.add(topic_partition)
        return topic_partitions

    def is_leaving(self, group_id: str) -> bool:
        """Whether the group has no offsets, or none once open deletions are committed."""
        topic_partitions = self._open.get(group_id, {})
        if any(changes[-1].value is not None for changes in topic_partitions.values()):
            return False
        committed = self._committed.get(group_id, {})
        count = sum(len(values) for values in committed.values())
        # Cheap for the many groups without open changes.
        return count <= len(topic_partitions) and all(
            (topic, partition) in topic_partitions
            for topic, values in committed.items()
            for partition in values
        )

    # Appended records.

    def begin(
        self,
        group_id: str,
        records: Iterable[tuple[TopicPartition, bytes | None]],
        writer: Writer = NOBODY,
    ) -> list[PendingOffset]:
        """Add changes for records that are being appended, in log order."""
        return [
            self.add(PendingOffset(group_id, topic_partition, value, writer))
            for topic_partition, value in records
        ]

    def on_committed(self, changes: Iterable[PendingOffset]) -> None:
        """The records are committed in the log."""
        for change in changes:
            self._on_committed(change)

    def on_failed(self, changes: Iterable[PendingOffset]) -> None:
        """The records were not written."""
        for change in changes:
            assert not change.is_committed, "readers have seen it"
            self._close(change)

    def on_marker(self, producer_id: int, producer_epoch: int, *, is_commit: bool) -> None:
        """A transaction of the producer has ended. The marker's epoch may be later than that of the
        changes: the producer was fenced, or gets an epoch per transaction (KIP-890)."""
        for change in list(self._transactions.get(producer_id, ())):
            if change.writer.producer_epoch > producer_epoch:
                continue
            if change.outcome is None:
                change.outcome = is_commit
            if change.is_committed:
                self._end(change)

    # Loading.

    def find_values(self, group_id: str, topic: str) -> Values:
        """The group's values for the topic, which the loader changes directly: later records
        replace earlier ones, unless changes are open."""
        assert self.keeps_empty, "what is empty may be left behind by the next deletion"
        return self._committed.setdefault(group_id, {}).setdefault(intern(topic), {})

    @property
    def open_groups(self) -> Mapping[str, object]:
        """The groups with open changes; a live view."""
        return self._open

    def drop_empty(self) -> None:
        """Remove topics and groups without offsets."""
        self.keeps_empty = False
        for group_id, topics in list(self._committed.items()):
            for topic, values in list(topics.items()):
                if not values:
                    del topics[topic]
            if not topics:
                del self._committed[group_id]
        assert all(self._committed.values()), "a group without offsets would never be deleted"

    # The life of a change.

    def add(self, change: PendingOffset) -> PendingOffset:
        """Add a change that follows all others in the log."""
        assert not change.is_superseded, "nothing follows it yet"
        topic_partitions = self._open.setdefault(change.group_id, {})
        topic_partitions.setdefault(change.topic_partition, []).append(change)
        # A deletion is never part of a transaction, even within a transactional batch.
        if change.writer.is_transactional and change.value is not None:
            self._transactions.setdefault(change.writer.producer_id, {})[change] = None
        return change

    def _on_committed(self, change: PendingOffset) -> None:
        assert not change.is_committed
        change.is_committed = True
        ongoing = self._transactions.get(change.writer.producer_id, ())
        if change.outcome is not None or change not in ongoing:
            self._end(change)
            return
        # Of one transaction only the last commit of a partition counts; it may have many.
        changes = self._open[change.group_id][change.topic_partition]
        for earlier in changes[: changes.index(change)]:
            if earlier.writer == change.writer and earlier.is_committed:
                self._close(earlier)

    def _end(self, change: PendingOffset) -> None:
        """Apply a change whose outcome is known."""
        assert change.is_committed, "readers would see what may be lost (G-03)"
        if change.outcome is not False:
            if not change.is_superseded:
                self._put_in_force(change)
            self._supersede_before(change)
        self._close(change)

    def _put_in_force(self, change: PendingOffset) -> None:
        group_id, (topic, partition) = change.group_id, change.topic_partition
        assert change.is_committed, "readers would see what may be lost (G-03)"
        assert not change.is_superseded, "the group would go back to an earlier offset (T-23)"
        if change.value is not None:
            topics = self._committed.setdefault(group_id, {})
            topics.setdefault(intern(topic), {})[partition] = change.value
            return
        topics = self._committed.get(group_id, {})
        values = topics.get(topic, {})
        values.pop(partition, None)
        if not values and not self.keeps_empty:
            topics.pop(topic, None)
            if not topics:
                self._committed.pop(group_id, None)

    def _supersede_before(self, change: PendingOffset) -> None:
        assert change.outcome is not False, "what is aborted replaces nothing (T-23)"
        changes = self._open[change.group_id][change.topic_partition]
        for earlier in changes[: changes.index(change)]:
            earlier.is_superseded = True
            if change.value is None:
                # Readers need not wait for the marker of what was deleted.
                earlier.outcome = False
                if earlier.is_committed:
                    self._close(earlier)

    def _close(self, change: PendingOffset) -> None:
        topic_partitions = self._open[change.group_id]
        changes = topic_partitions[change.topic_partition]
        changes.remove(change)
        if not changes:
            del topic_partitions[change.topic_partition]
            if not topic_partitions:
                del self._open[change.group_id]
        producer_id = change.writer.producer_id
        waiting = self._transactions.get(producer_id)
        if waiting is not None:
            waiting.pop(change, None)
            if not waiting:
                del self._transactions[producer_id]
        assert topic_partitions or change.group_id not in self._open, (
            "it would never count as deleted"
        )


def offset_record(group_id: str, topic_partition: TopicPartition, value: bytes | None) -> LogRecord:
    """The record that commits or deletes an offset. Raises ValueError for too long a name."""
    return LogRecord(encode_key(RecordKind.OFFSET_COMMIT, group_id, *topic_partition), value)
