"""All groups of one partition of ``__consumer_offsets``: the interface of the group coordinator.

The caller passes the log, then requests, outcomes and the time; the shard passes each to the right
group and returns the effects. A group id belongs to one kind of group at a time: group_table.py
finds the group, classic/ and consumer/ (KIP-848) have the two kinds, offsets/ the offsets of both,
and overview.py the requests about many groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.coordinator.effects import NOBODY
from ottla.coordinator.failures import Skipped
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.common.records import (
    decode_record,
)
from ottla.coordinator.group.group_table import GroupTable
from ottla.coordinator.group.offsets.expiry import EXAMINED_PER_SLICE_MAX, OffsetExpiry
from ottla.coordinator.group.offsets.offsets import OffsetTable
from ottla.coordinator.group.overview import GroupOverview
from ottla.coordinator.shard import CoordinatorShard
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.coordinator.effects import (
        Effects,
        LogRecord,
        Moment,
        RequestOrigin,
        Ticket,
        Writer,
    )
    from ottla.coordinator.group.common.membership import Groups
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.coordinator.group.common.timeline import Event
    from ottla.coordinator.metadata.image import MetadataImage
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest

# Deadlines that belong to no group: no group with members can have the empty id.
_EXPIRY = ("", "expiry")
_TOPICS = ("", "topics")


class GroupShard(CoordinatorShard["Effects"]):
    """Created empty when a broker begins to lead a partition, loaded by ``replay``, dropped when
    its leader epoch ends. ``image`` returns the cluster's newest metadata. Every call returns the
    effects to execute, in order; the shard executes none itself."""

    scope: GroupScope

    def __init__(self, scope: GroupScope, image: Callable[[], MetadataImage]) -> None:
        self.scope = scope
        self.groups: Groups = {}
        self.skipped = Skipped()
        self.offsets = OffsetTable(scope, self.groups, lambda topic: topic in image().topics)
        self._image = image
        self._topics = image().topics
        self._kinds = GroupTable(scope, self.groups, image)
        self._overview = GroupOverview(scope, self.groups, self.offsets)
        self._expiry = OffsetExpiry(
            scope, self.offsets, self.groups, lambda group_id: self.groups.pop(group_id)
        )
        self._handlers = self._make_handlers()

    @property
    def must_reload(self) -> bool:
        """Whether memory and log differ for good: unload this shard and load another."""
        return self.scope.must_reload

    def limit_batches(self, limit: Callable[[], int]) -> None:
        """Set the function that returns the log's present size limit of a batch, in bytes."""
        self.scope.batch_limit = limit

    # Loading.

    def replay(
        self, record: LogRecord, writer: Writer = NOBODY, moment: Moment | None = None
    ) -> None:
        """Apply one record of the log while loading; HOT. Not for records that were appended
        through the effects: for those call ``committed``."""
        if self.offsets.replay(record, writer):
            return
        if moment is not None:
            self.scope.moment = moment
        read = decode_record(record, self.skipped)
        if read is not None:
            self._kinds.replay(read)

    def replay_marker(
        self, producer_id: int, producer_epoch: int, committed: bool, moment: Moment | None = None
    ) -> None:
        """A transaction has ended: in the log being loaded, or in the partition once the marker
        is committed."""
        if moment is not None:
            self.scope.moment = moment
        self.offsets.replay_marker(producer_id, producer_epoch, is_commit=committed)

    def on_loaded(self, moment: Moment) -> Effects:
        """The log is read to its end."""
        assert not self.scope.outbox.open_count, "nothing is written before the log is read"
        self.scope.moment = moment
        self.offsets.on_loaded()
        self._kinds.on_loaded(moment)
        self._set_expiry()
        return self.on_topics_changed(moment)

    # Running.

    def handle(
        self, request: Any, caller: RequestOrigin, ticket: Ticket, moment: Moment
    ) -> Effects:
        """Handle one request about groups of this shard: JoinGroup, SyncGroup, Heartbeat,
        LeaveGroup, DescribeGroups, DeleteGroups, OffsetCommit, OffsetFetch (one group),
        OffsetDelete, TxnOffsetCommit, ConsumerGroupHeartbeat, ConsumerGroupDescribe."""
        self.scope.moment = moment
        self._handlers[type(request)](request, caller, ticket)
        return self.scope.outbox.take()

    def _take(self) -> Effects:
        return self.scope.outbox.take()

    def next_deadline_ms(self) -> float | None:
        """When ``on_deadline`` is due, on the monotonic clock; None if no deadline is set."""
        return self.scope.deadlines.next_deadline_ms()

    def on_deadline(self, moment: Moment) -> Effects:
        """Handle due deadlines. May be called early."""
        self.scope.moment = moment
        deadlines = self.scope.deadlines
        # One at a time: a rebalance that ends at its timer cancels the timers of removed members.
        # Deadlines set to this same moment meanwhile are taken by the next call.
        is_sweep_due = is_removal_due = False
        for _ in range(len(deadlines)):
            key = deadlines.take_expired(moment.now_ms)
            if key is None:
                break
            group_id, rest = key
            if key == _EXPIRY:
                is_sweep_due = True
            elif key == _TOPICS:
                is_removal_due = True
            elif group_id in self.groups:
                self._kinds.on_deadline(group_id, rest)
        if is_removal_due:
            self._remove_topics()
        if is_sweep_due:
            # Once: its next slice is due at this moment too, and would be taken as well.
            self._expire(moment)
        return self.scope.outbox.take()

    def on_topics_changed(self, moment: Moment) -> Effects:
        """The topics or partitions that ``image`` returns have changed."""
        self.scope.moment = moment
        before, self._topics = self._topics, self._image().topics
        gone = [
            name
            for name, topic in before.items()
            if name not in self._topics or self._topics[name].topic_id != topic.topic_id
        ]
        if gone:
            self.offsets.topic_removal.start(gone)
            self._remove_topics()
        return self.scope.outbox.take()

    def unload(self, error: ErrorCode) -> Effects:
        """End the shard; returns only answers, one for each waiting request."""
        outbox = self.scope.outbox
        for group in self.groups.values():
            group.on_unload(error)
        outbox.fail_all(error)
        assert not outbox.open_count, "a request would never be answered"
        return outbox.take_answers()

    # Reports.

    def listing(self, request: ListGroupsRequest) -> Iterator[ListedGroup | None]:
        """ListGroups, group after group: None for one that does not match. The caller may run
        other work in between."""
        return self._overview.listing(request)

    def timeline(self, group_id: str) -> list[Event]:
        """The recent events of a group, oldest first (``ottla groups explain``)."""
        return self.scope.timeline.of_group(group_id)

    # Helpers.

    def _make_handlers(self) -> dict[type, Callable[[Any, RequestOrigin, Ticket], object]]:
        kinds, offsets, overview = self._kinds, self.offsets, self._overview
        answer, scope = self.scope.outbox.answer, self.scope
        return {
            HeartbeatRequest: self._heartbeat,
            JoinGroupRequest: kinds.join,
            SyncGroupRequest: kinds.handle,
            LeaveGroupRequest: kinds.handle,
            ConsumerGroupHeartbeatRequest: kinds.consumer_heartbeat,
            ConsumerGroupDescribeRequest: kinds.describe,
            OffsetCommitRequest: lambda request, caller, ticket: offsets.commit(
                request, caller, ticket, scope.moment
            ),
            TxnOffsetCommitRequest: lambda request, caller, ticket: offsets.commit_in_transaction(
                request, ticket, scope.moment
            ),
            OffsetFetchRequest: offsets.fetch,
            OffsetDeleteRequest: lambda request, caller, ticket: offsets.delete(request, ticket),
            DescribeGroupsRequest: lambda request, caller, ticket: answer(
                ticket, overview.describe(request, caller.api_version)
            ),
            DeleteGroupsRequest: lambda request, caller, ticket: overview.delete(request, ticket),
        }

    def _heartbeat(self, request: HeartbeatRequest, caller: RequestOrigin, ticket: Ticket) -> None:
        """Handle the most frequent request with no detour. HOT."""
        group = self.groups.get(request.group_id)
        if type(group) is ClassicGroup:
            response = HeartbeatResponse(0, group.heartbeat(request))
            self.scope.outbox.answer(ticket, response)
        else:
            self._kinds.handle(request, caller, ticket)

    def _remove_topics(self) -> None:
        if self.offsets.topic_removal.run(EXAMINED_PER_SLICE_MAX):
            self.scope.deadlines.set(_TOPICS, self.scope.moment.now_ms)

    def _expire(self, moment: Moment) -> None:
        """Run one slice of a sweep. The next one is due at once; requests may run in between."""
        if not moment.is_wall_trusted:
            # A clock step of a month would expire groups that consumers have not finished reading.
            self._expiry.stop()
            self._set_expiry()
            return
        self._expiry.start()
        if self._expiry.run(moment):
            self.scope.deadlines.set(_EXPIRY, moment.now_ms)
        else:
            self._set_expiry()

    def _set_expiry(self) -> None:
        interval_ms = self.scope.settings.offsets_retention_check_interval_ms
        self.scope.deadlines.set(_EXPIRY, self.scope.moment.now_ms + interval_ms)
