"""Expires committed offsets and empty groups (KIP-211).

An offset expires when it was unused for offsets.retention.minutes: since its group became empty or
since its commit, whichever is later. Offsets of a standalone consumer, and of topics that a group
with members no longer subscribes to, count from their commit. An explicit expiry time of an old
request overrides this. Nothing expires during a rebalance or while the partition has open changes
(G-01). A group expires when it has neither members nor offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import GROUP_TYPE as CLASSIC
from ottla.coordinator.group.common.records import decode_offset
from ottla.coordinator.group.offsets.removal import APPEND_COST
from ottla.coordinator.outbox import Continuation, nothing
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ottla.coordinator.effects import Moment
    from ottla.coordinator.group.common.membership import Group
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.coordinator.group.offsets.offsets import OffsetTable

EXAMINED_PER_SLICE_MAX = 5_000
"""A few milliseconds: a sweep over a million offsets must not hold up heartbeats."""


class OffsetExpiry:
    """One per shard. A sweep over all groups starts every offsets.retention.check.interval.ms
    and runs in slices.

    ``groups`` as in OffsetTable; ``forget`` drops a group whose tombstones are being written."""

    def __init__(
        self,
        scope: GroupScope,
        table: OffsetTable,
        groups: Mapping[str, Group],
        forget: Callable[[str], object],
    ) -> None:
        self._scope = scope
        self._ledger = table.ledger
        self._removal = table.removal
        self._groups = groups
        self._forget = forget
        self._sweep: Iterator[int] | None = None
        self._wall_ms = 0

    def start(self) -> None:
        """Begin a sweep, unless one is running."""
        if self._sweep is None:
            self._sweep = self._visit_groups()

    def stop(self) -> None:
        """Abort the sweep: what it found expired may not be."""
        self._sweep = None

    def run(self, moment: Moment, examined_max: int = EXAMINED_PER_SLICE_MAX) -> bool:
        """Run a slice of the sweep; return whether there is more to do at once."""
        assert moment.is_wall_trusted, "a wrong clock would expire what is in use"
        self._wall_ms = moment.wall_ms
        examined = 0
        while self._sweep is not None and examined < examined_max:
            step = next(self._sweep, None)
            if step is None:
                self._sweep = None
            else:
                examined += step
        return self._sweep is not None

    def _visit_groups(self) -> Iterator[int]:
        """The sweep; yields per step the number of offsets examined, plus one.

        Between two steps anything may change except the list of ids, so each step reads the current
        state. Sorting a hundred thousand ids would take longer than a slice."""
        for group_id in self._ledger.visit_ids():
            for topic in sorted(self._ledger.committed(group_id)):
                yield self._visit_topic(group_id, topic)
            yield 1
        for group_id in list(self._groups):
            group = self._groups.get(group_id)
            if group is not None:
                self._visit_emptied(group)
            yield 1

    def _visit_topic(self, group_id: str, topic: str) -> int:
        group = self._groups.get(group_id)
        since_wall_ms = 0 if group is None else group.empty_since_wall_ms
        if group is not None and since_wall_ms is None and not group.has_settled_subscriptions:
            return 1
        if group is not None and group.is_subscribed(topic):
            return 1
        values = self._ledger.committed(group_id).get(topic, {})
        expired = [
            TopicPartition(topic, partition)
            for partition, value in values.items()
            if self._is_expired(value, since_wall_ms or 0)
        ]
        self._removal.remove(
            group_id,
            [
                topic_partition
                for topic_partition in expired
                if not self._ledger.is_open(group_id, topic_partition)
            ],
        )
        return len(values) + 1 + (APPEND_COST if expired else 0)

    def _is_expired(self, value: bytes, since_wall_ms: int) -> bool:
        committed = decode_offset(value)
        assert committed is not None, "only what can be read was taken in"
        if committed.expire_wall_ms != -1:
            return self._wall_ms >= committed.expire_wall_ms
        unused_since_wall_ms = max(since_wall_ms, committed.commit_wall_ms)
        return self._wall_ms - unused_since_wall_ms >= self._scope.settings.offsets_retention_ms

    def _visit_emptied(self, group: Group) -> None:
        """Delete a group that has neither members nor offsets."""
        if (
            group.empty_since_wall_ms is not None
            and group.check_delete() is ErrorCode.NONE
            and self._ledger.is_leaving(group.group_id)
        ):
            # It ends in memory now: a member that joins later creates a new group, whose records
            # follow these in the log.
            assert self._groups[group.group_id] is group
            tombstones = list(group.tombstones())
            self._forget(group.group_id)
            if tombstones:
                on_failed = self._on_lost if group.group_type != CLASSIC else _ignore
                self._scope.outbox.append(tombstones, Continuation(nothing, on_failed))

    def _on_lost(self, error: ErrorCode) -> None:
        # The records of the next group with this id would mix with this group's and be read as one
        # group. Of a classic group only the last record counts.
        del error
        self._scope.must_reload = True


def _ignore(error: ErrorCode) -> None:
    del error
