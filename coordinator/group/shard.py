"""All groups of one partition of ``__consumer_offsets``: the single door of the machine.

The shell gives it the log, then requests, outcomes and the time; it hands each to the group that
is meant and returns the effects. A group id belongs to one kind of group at a time: groups of the
classic protocol are in classic/, those of KIP-848 in consumer/, offsets of both in offsets.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.coordinator.group.effects import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.group.effects import (
        Caller,
        Effects,
        LogRecord,
        Moment,
        Ticket,
        Token,
        Writer,
    )
    from ottla.coordinator.group.scope import Scope
    from ottla.coordinator.group.timeline import Event
    from ottla.coordinator.metadata.image import MetadataImage
    from ottla.protocol.errors import ErrorCode


class GroupShard:
    """Made empty when a partition begins to be led, loaded by ``replay``, thrown away at the end
    of its leader epoch. ``image`` gives the newest metadata of the cluster whenever it is asked.

    Every call returns what to do, in order; nothing is done by itself."""

    def __init__(self, scope: Scope, image: Callable[[], MetadataImage]) -> None:
        self.scope = scope
        self._image = image

    @property
    def must_reload(self) -> bool:
        """Whether memory is ahead of the log for good: unload this shard and load another."""
        return self.scope.must_reload

    # Loading.

    def replay(
        self, record: LogRecord, writer: Writer = NOBODY, moment: Moment | None = None
    ) -> None:
        """Take in one record of the log while loading; HOT. Not for what was appended through
        the effects: of that, ``committed`` tells."""
        raise NotImplementedError

    def replay_marker(
        self, producer_id: int, producer_epoch: int, committed: bool, moment: Moment | None = None
    ) -> None:
        """The end of a transaction: in the log being loaded, or in the partition once the marker
        is committed."""
        raise NotImplementedError

    def on_loaded(self, moment: Moment) -> Effects:
        """The log is read to its end."""
        raise NotImplementedError

    # Working.

    def handle(self, request: Any, caller: Caller, ticket: Ticket, moment: Moment) -> Effects:
        """One request about groups of this shard: JoinGroup, SyncGroup, Heartbeat, LeaveGroup,
        DescribeGroups, ListGroups, DeleteGroups, OffsetCommit, OffsetFetch (one group),
        OffsetDelete, TxnOffsetCommit, ConsumerGroupHeartbeat, ConsumerGroupDescribe."""
        raise NotImplementedError

    def committed(self, token: Token, moment: Moment) -> Effects:
        """The high watermark has passed the records of that append."""
        raise NotImplementedError

    def failed(self, token: Token, error: ErrorCode, moment: Moment) -> Effects:
        """The records of that append were not written, or may yet vanish."""
        raise NotImplementedError

    def overdue(self, token: Token, moment: Moment) -> Effects:
        """Nobody knows what became of that append, and who waits has waited long enough."""
        raise NotImplementedError

    def next_deadline_ms(self) -> float | None:
        """When ``on_deadline`` is due, on the monotonic clock."""
        return self.scope.deadlines.next_deadline_ms()

    def on_deadline(self, moment: Moment) -> Effects:
        """Deadlines have come. May be called early."""
        raise NotImplementedError

    def on_topics_changed(self, moment: Moment) -> Effects:
        """Topics, or their partitions, are different from what ``image`` gave before."""
        raise NotImplementedError

    def unload(self, error: ErrorCode) -> Effects:
        """The end: only answers come back, one for everybody who waits."""
        raise NotImplementedError

    # Telling.

    def timeline(self, group_id: str) -> list[Event]:
        """What is known of a group's recent past, oldest first (``ottla groups explain``)."""
        return self.scope.timeline.of_group(group_id)
