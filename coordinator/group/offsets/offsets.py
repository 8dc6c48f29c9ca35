"""Handles OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit for the groups of one shard.

A commit is checked and appended in one call (G-02), answered and visible when it is committed
(G-03), and never replaced by one that precedes it in the log. Stored offsets and open changes are
in ledger.py; the other files read, answer and delete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.effects import NOBODY, Ticket, Writer
from ottla.coordinator.group.common.records import CommittedOffset, encode_offset
from ottla.coordinator.group.offsets.ledger import OffsetLedger, offset_record
from ottla.coordinator.group.offsets.loading import OffsetLoading
from ottla.coordinator.group.offsets.outcome import (
    CommitOutcome,
    CommitResponse,
    DeletionOutcome,
)
from ottla.coordinator.group.offsets.reading import read_offsets
from ottla.coordinator.group.offsets.removal import OffsetRemoval
from ottla.coordinator.group.offsets.topic_removal import TopicRemoval
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.primitives import STRING_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.coordinator.effects import LogRecord, Moment, RequestOrigin
    from ottla.coordinator.group.common.membership import Group
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.protocol.messages.offset_fetch import OffsetFetchRequest

NO_RETENTION = -1
INT64_MAX = 2**63 - 1
# The first OffsetCommit version that knows member epochs and GROUP_ID_NOT_FOUND (KIP-848).
MEMBER_EPOCH_VERSION = 9

_CommitPartition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
_Values = list[tuple[TopicPartition, bytes | None]]


class _Asked(NamedTuple):
    """A request to commit; its response already has the errors found on receipt."""

    group_id: str
    ticket: Ticket
    response: CommitResponse


class OffsetTable:
    """One per shard. Responses go through the scope's outbox, at once or when the appended
    records are committed.

    ``groups`` are those that have or had members; a group with nothing but offsets is a simple
    one, for which a client without membership commits."""

    def __init__(
        self, scope: GroupScope, groups: Mapping[str, Group], has_topic: Callable[[str], bool]
    ) -> None:
        self.ledger = OffsetLedger()
        self.loading = OffsetLoading(self.ledger)
        self.removal = OffsetRemoval(self.ledger, scope.outbox)
        self.topic_removal = TopicRemoval(self.ledger, self.removal)
        self._settings = scope.settings
        self._outbox = scope.outbox
        self._groups = groups
        self._has_topic = has_topic

    # Loading, and markers.

    def replay(self, record: LogRecord, writer: Writer = NOBODY) -> bool:
        """Apply a record of the log; False for one that is not about offsets. Not for records that
        were appended through the outbox."""
        return self.loading.replay(record, writer)

    def replay_marker(self, producer_id: int, producer_epoch: int, *, is_commit: bool) -> None:
        """A transaction has ended, in the log being loaded or, once its marker is committed, in
        the partition (GRP-16)."""
        self.ledger.on_marker(producer_id, producer_epoch, is_commit=is_commit)

    def on_loaded(self) -> None:
        """All records are read."""
        self.loading.finish()

    def group_ids(self) -> set[str]:
        """The groups that have offsets or open changes."""
        return self.ledger.group_ids()

    def has_group(self, group_id: str) -> bool:
        """Whether the group has offsets or open changes."""
        return self.ledger.has_group(group_id)

    # Requests.

    def commit(
        self, request: OffsetCommitRequest, caller: RequestOrigin, ticket: Ticket, moment: Moment
    ) -> None:
        """Handle OffsetCommit 2-9."""
        response = OffsetCommitResponse()
        values: _Values = []
        retention_ms = request.retention_time_ms
        expire_wall_ms = -1
        if retention_ms != NO_RETENTION:
            # A client may request the largest retention for "never".
            expire_wall_ms = min(moment.wall_ms + retention_ms, INT64_MAX)
        for topic in request.topics:
            judged = OffsetCommitResponseTopic(name=topic.name)
            response.topics.append(judged)
            for partition in topic.partitions:
                error = self._judge(topic.name, partition)
                judged.partitions.append(
                    OffsetCommitResponsePartition(partition.partition_index, error)
                )
                if error is ErrorCode.NONE:
                    topic_partition = TopicPartition(topic.name, partition.partition_index)
                    values.append(
                        (topic_partition, _value(partition, moment.wall_ms, expire_wall_ms))
                    )
        error = self._judge_member(request, caller)
        self._write(_Asked(request.group_id, ticket, response), values, error, NOBODY)

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, ticket: Ticket, moment: Moment
    ) -> None:
        """Handle TxnOffsetCommit 0-5: stored now, effective with the transaction's marker."""
        response = TxnOffsetCommitResponse()
        values: _Values = []
        for topic in request.topics:
            judged = TxnOffsetCommitResponseTopic(name=topic.name)
            response.topics.append(judged)
            for partition in topic.partitions:
                error = self._judge(topic.name, partition)
                judged.partitions.append(
                    TxnOffsetCommitResponsePartition(partition.partition_index, error)
                )
                if error is ErrorCode.NONE:
                    topic_partition = TopicPartition(topic.name, partition.partition_index)
                    values.append((topic_partition, _value(partition, moment.wall_ms, -1)))
        error = self._judge_producer(request)
        assert error is not ErrorCode.NONE or request.producer_id >= 0, "no marker would end it"
        writer = Writer(request.producer_id, request.producer_epoch)
        self._write(_Asked(request.group_id, ticket, response), values, error, writer)

    def fetch(self, request: OffsetFetchRequest, caller: RequestOrigin, ticket: Ticket) -> None:
        """Handle OffsetFetch 1-9, from memory alone (GRP-07)."""
        response = read_offsets(request, caller.api_version, self.ledger, self._groups)
        self._outbox.answer(ticket, response)

    def delete(self, request: OffsetDeleteRequest, ticket: Ticket) -> None:
        """Handle OffsetDelete 0 (KIP-496)."""
        group = self._groups.get(request.group_id)
        error = ErrorCode.NONE
        if group is not None:
            error = group.check_offset_delete()
        elif not self.ledger.has_group(request.group_id):
            error = ErrorCode.GROUP_ID_NOT_FOUND
        if error is not ErrorCode.NONE:
            self._outbox.answer(ticket, OffsetDeleteResponse(error))
            return
        response = OffsetDeleteResponse()
        present = self.ledger.topic_partitions(request.group_id)
        topic_partitions: dict[TopicPartition, None] = {}
        for topic in request.topics:
            is_subscribed = group is not None and group.is_subscribed(topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
            judged = OffsetDeleteResponseTopic(name=topic.name)
            response.topics.append(judged)
            for partition in topic.partitions:
                index = partition.partition_index
                judged.partitions.append(OffsetDeleteResponsePartition(index, error))
                topic_partition = TopicPartition(topic.name, index)
                if topic_partition in present and not is_subscribed:
                    topic_partitions[topic_partition] = None
        if not topic_partitions:
            self._outbox.answer(ticket, response)
            return
        outcome = DeletionOutcome(self._outbox, ticket, response)
        self.removal.remove(request.group_id, topic_partitions, outcome.continuation())

    # Checks.

    def _judge(self, topic: str, partition: _CommitPartition) -> ErrorCode:
        if partition.partition_index < 0 or not self._has_topic(topic):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        metadata = partition.committed_metadata
        # Kafka counts characters, despite the setting's name; a record has a limit in bytes.
        if metadata is not None and (
            len(metadata) > self._settings.offset_metadata_max_bytes
            or len(metadata.encode()) > STRING_BYTES_MAX
        ):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    def _judge_member(self, request: OffsetCommitRequest, caller: RequestOrigin) -> ErrorCode:
        epoch = request.generation_id_or_member_epoch
        is_recent = caller.api_version >= MEMBER_EPOCH_VERSION
        group = self._groups.get(request.group_id)
        if group is None:
            if epoch < 0:
                return ErrorCode.NONE
            if self.ledger.has_group(request.group_id):
                return ErrorCode.UNKNOWN_MEMBER_ID
            return ErrorCode.GROUP_ID_NOT_FOUND if is_recent else ErrorCode.ILLEGAL_GENERATION
        # A KIP-848 member takes its epoch for the generation of older versions; accepted with
        # these, it would get error codes that it does not know when its epoch changes.
        if not is_recent and group.needs_member_epochs(request.member_id):
            return ErrorCode.UNSUPPORTED_VERSION
        return group.check_commit(
            request.member_id, request.group_instance_id, epoch, is_transactional=False
        )

    def _judge_producer(self, request: TxnOffsetCommitRequest) -> ErrorCode:
        if request.producer_id < 0:
            # A negative id means no producer: the commit would take effect at once.
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if request.producer_epoch < 0:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        epoch = request.generation_id_or_member_epoch
        group = self._groups.get(request.group_id)
        if group is None:
            if epoch < 0:
                return ErrorCode.NONE
            # A group with offsets that is not in the table has no members.
            if self.ledger.has_group(request.group_id):
                return ErrorCode.UNKNOWN_MEMBER_ID
            return ErrorCode.ILLEGAL_GENERATION
        error = group.check_commit(
            request.member_id, request.group_instance_id, epoch, is_transactional=True
        )
        # Producers know only generations.
        is_stale = error is ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.ILLEGAL_GENERATION if is_stale else error

    def _write(self, asked: _Asked, values: _Values, error: ErrorCode, writer: Writer) -> None:
        """Append at once: no rebalance may start between check and append (G-02)."""
        group_id = asked.group_id
        self.topic_removal.before_commit(group_id)
        changes = self.ledger.begin(group_id, values if error is ErrorCode.NONE else (), writer)
        outcome = CommitOutcome(self._outbox, asked.ticket, asked.response)
        if not changes:
            outcome.answer(error)
            return
        assert error is ErrorCode.NONE
        assert len(changes) == len(values), "one change for each record"
        self._outbox.append(
            [offset_record(group_id, topic_partition, value) for topic_partition, value in values],
            outcome.continuation(self.ledger, changes),
            writer,
        )


def _value(partition: _CommitPartition, wall_ms: int, expire_wall_ms: int) -> bytes:
    return encode_offset(
        CommittedOffset(
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata or "",
            wall_ms,
            expire_wall_ms,
        )
    )
