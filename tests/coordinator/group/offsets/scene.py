"""Committed offsets over a log that is a list: records stand in it in the order of their appends,
and become committed when the test says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.coordinator.effects import Append, LogRecord, Moment, RequestOrigin, SendResponse
from ottla.coordinator.group.common.records import decode_offset
from ottla.coordinator.group.common.scope import GroupScope
from ottla.coordinator.group.common.settings import GroupSettings
from ottla.coordinator.group.offsets.expiry import OffsetExpiry
from ottla.coordinator.group.offsets.offsets import OffsetTable
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from ottla.coordinator.effects import Writer
    from ottla.coordinator.group.common.membership import Group

WALL_MS = 1_700_000_000_000
DAY_MS = 86_400_000
GROUP = "g"


def moment(wall_ms: int = WALL_MS) -> Moment:
    return Moment(0.0, wall_ms)


def caller(api_version: int = 8) -> RequestOrigin:
    return RequestOrigin("client", "/host", api_version)


@dataclass
class PlainGroup:
    """A group that answers what the test has set."""

    group_id: str = GROUP
    group_type: str = "classic"
    state_name: str = "Stable"
    protocol_type: str | None = "consumer"
    commit_error: ErrorCode = ErrorCode.NONE
    fetch_error: ErrorCode = ErrorCode.NONE
    offset_delete_error: ErrorCode = ErrorCode.NONE
    topics: frozenset[str] = frozenset()
    modern_members: frozenset[str] = frozenset()
    empty_since_wall_ms: int | None = None
    has_settled_subscriptions: bool = False
    asked: list[tuple[object, ...]] = field(default_factory=list)

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, is_transactional: bool
    ) -> ErrorCode:
        self.asked.append((member_id, instance_id, epoch, is_transactional))
        return self.commit_error

    def needs_member_epochs(self, member_id: str) -> bool:
        return member_id in self.modern_members

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        self.asked.append((member_id, epoch))
        return self.fetch_error

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.topics

    def check_delete(self) -> ErrorCode:
        is_empty = self.empty_since_wall_ms is not None
        return ErrorCode.NONE if is_empty else ErrorCode.NON_EMPTY_GROUP

    def check_offset_delete(self) -> ErrorCode:
        return self.offset_delete_error

    def tombstones(self) -> Iterable[LogRecord]:
        return [LogRecord(b"\0\2\0\1" + self.group_id.encode(), None)]

    def on_unload(self, error: ErrorCode) -> None:
        raise AssertionError("offsets unload no group")

    def on_loaded(self, moment: Moment) -> None:
        raise AssertionError("offsets load no group")

    def on_deadline(self, rest: Hashable) -> None:
        raise AssertionError("offsets have no deadline")


class Marker(NamedTuple):
    """The end of a transaction in the log."""

    producer_id: int
    producer_epoch: int
    is_commit: bool


class Scene:
    """A table, its shell and its log."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.scope = GroupScope(settings or GroupSettings(), lambda: "id")
        self.groups: dict[str, Group] = {}
        self.topics = {"t", "u"}
        self.table = OffsetTable(self.scope, self.groups, self.topics.__contains__)
        self.expiry = OffsetExpiry(
            self.scope, self.table, self.groups, lambda group_id: self.groups.pop(group_id)
        )
        self.log: list[tuple[LogRecord, Writer] | Marker] = []
        self.pending: list[Append] = []
        # Appends that can only be committed any more.
        self.late: list[Append] = []
        self.answers: dict[int, Any] = {}
        self.ticket = 0

    # What a shell does.

    def perform(self) -> None:
        """Carry out the effects: appends go to the log at once, and stay open."""
        for effect in self.scope.outbox.take():
            if isinstance(effect, SendResponse):
                assert effect.ticket not in self.answers, "answered twice"
                self.answers[effect.ticket] = effect.response
            else:
                self.log.extend((record, effect.writer) for record in effect.records)
                self.pending.append(effect)

    def settle(self) -> None:
        """The high watermark reaches the end of the log."""
        while self.pending:
            self.scope.outbox.committed(self.pending.pop(0).token)
        self.perform()

    def fail(self, error: ErrorCode, index: int = 0) -> None:
        """An append was refused: its records are not in the log."""
        append = self.pending.pop(index)
        gone = {id(record) for record in append.records}
        self.log = [entry for entry in self.log if id(entry[0]) not in gone]
        self.scope.outbox.failed(append.token, error)
        self.perform()

    def overdue(self, index: int = 0) -> None:
        self.scope.outbox.overdue(self.pending[index].token)
        self.perform()

    def mark(self, producer_id: int, is_commit: bool, producer_epoch: int = 0) -> None:
        """A transaction ends; everything before the marker is committed with it."""
        self.settle()
        self.mark_only(producer_id, is_commit, producer_epoch)

    def mark_only(self, producer_id: int, is_commit: bool, producer_epoch: int = 0) -> None:
        """Writes the marker without a report of what became of the commits."""
        self.log.append(Marker(producer_id, producer_epoch, is_commit))
        self.table.replay_marker(producer_id, producer_epoch, is_commit=is_commit)
        self.perform()

    def reloaded(self) -> Scene:
        """What another coordinator makes of the same log."""
        other = Scene(self.scope.settings)
        other.groups.update(self.groups)
        other.load(self.log)
        return other

    def load(self, log: list[tuple[LogRecord, Writer] | Marker]) -> None:
        for entry in log:
            if isinstance(entry, Marker):
                self.table.replay_marker(
                    entry.producer_id, entry.producer_epoch, is_commit=entry.is_commit
                )
            else:
                self.table.replay(*entry)
        self.table.on_loaded()
        self.log = list(log)

    @property
    def records(self) -> list[LogRecord]:
        """What is in the log, without the ends of transactions."""
        return [entry[0] for entry in self.log if not isinstance(entry, Marker)]

    # Requests. Each returns its ticket.

    def commit(self, *offsets: int, version: int = 8, **fields: Any) -> int:
        """Commit for the partitions 0, 1, ... of topic t."""
        partitions = [
            OffsetCommitRequestPartition(index, offset) for index, offset in enumerate(offsets)
        ]
        request = OffsetCommitRequest(
            GROUP, topics=[OffsetCommitRequestTopic("t", partitions=partitions)]
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return self.commit_request(request, version)

    def commit_request(
        self, request: OffsetCommitRequest, version: int = 8, wall_ms: int = WALL_MS
    ) -> int:
        self.ticket += 1
        self.table.commit(request, caller(version), self.ticket, moment(wall_ms))
        self.perform()
        return self.ticket

    def commit_in_transaction(
        self, producer_id: int, *offsets: int, producer_epoch: int = 0, **fields: Any
    ) -> int:
        partitions = [
            TxnOffsetCommitRequestPartition(index, offset) for index, offset in enumerate(offsets)
        ]
        request = TxnOffsetCommitRequest(
            "txn",
            GROUP,
            producer_id,
            producer_epoch,
            topics=[TxnOffsetCommitRequestTopic("t", partitions=partitions)],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        self.ticket += 1
        self.table.commit_in_transaction(request, self.ticket, moment())
        self.perform()
        return self.ticket

    def delete(self, topic: str, *partitions: int) -> int:
        self.ticket += 1
        indexes = [OffsetDeleteRequestPartition(index) for index in partitions]
        request = OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic(topic, indexes)])
        self.table.delete(request, self.ticket)
        self.perform()
        return self.ticket

    def delete_topics(self, *topics: str) -> None:
        """They are gone; all that is to be done about it is done."""
        self.table.topic_removal.start(topics)
        while self.table.topic_removal.run(1_000):
            self.perform()
        self.perform()

    def fetch(self, request: OffsetFetchRequest, version: int = 8) -> Any:
        """The answer, which comes at once."""
        self.ticket += 1
        self.table.fetch(request, caller(version), self.ticket)
        self.perform()
        return self.answers[self.ticket]

    # What can be seen.

    def errors(self, ticket: int) -> list[int] | None:
        """Of each partition in the answer; None while there is no answer."""
        response = self.answers.get(ticket)
        if response is None:
            return None
        return [partition.error_code for topic in response.topics for partition in topic.partitions]

    def offset(self, partition: int = 0, *, is_stable: bool = False) -> int:
        """What OffsetFetch says about a partition of topic t: the offset, or minus the error."""
        topics = [OffsetFetchRequestTopics("t", partition_indexes=[partition])]
        group = OffsetFetchRequestGroup(GROUP, topics=topics)
        response = self.fetch(OffsetFetchRequest(groups=[group], require_stable=is_stable))
        (found,) = response.groups[0].topics[0].partitions
        offset: int = -found.error_code if found.error_code else found.committed_offset
        return offset

    def committed(self, group_id: str = GROUP) -> dict[tuple[str, int], int]:
        """Everything that a group has committed."""
        committed = {}
        for topic, values in self.table.ledger.committed(group_id).items():
            for partition, value in values.items():
                offset = decode_offset(value)
                assert offset is not None
                committed[topic, partition] = offset.offset
        return committed
