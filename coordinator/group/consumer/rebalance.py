"""Maintains group epoch, target assignment and members' progress: the three loops of KIP-848.

1. The group epoch grows when members join, leave or change their subscription, or topics change.
2. When it is ahead of the assignment epoch, the next heartbeat computes a new target.
3. Each member moves towards its target on its own, heartbeat by heartbeat (reconcile.py).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.coordinator.group.common.timeline import GroupEventKind
from ottla.coordinator.group.consumer.assignment import difference, pairs_of, size_of
from ottla.coordinator.group.consumer.assignors import ASSIGNORS, AssignmentTask
from ottla.coordinator.group.consumer.changes import changed_targets
from ottla.coordinator.group.consumer.member import MemberState
from ottla.coordinator.group.consumer.reconcile import reconciled
from ottla.coordinator.group.consumer.subscriptions import (
    Matching,
    forget_expressions,
    metadata_hash,
    resolve_expressions,
    subscribed_topics,
)
from ottla.coordinator.group.consumer.timers import REVOCATION, Timers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.coordinator.effects import RequestOrigin
    from ottla.coordinator.group.consumer.changes import Changes
    from ottla.coordinator.group.consumer.context import ConsumerContext
    from ottla.coordinator.group.consumer.member import ConsumerGroupMember, MemberAssignment
    from ottla.coordinator.group.consumer.reconcile import Report
    from ottla.coordinator.group.consumer.state import ConsumerGroupState
    from ottla.coordinator.metadata.image import TopicImage


class Rebalancing:
    """One per group. Its methods add their records to the given ``Changes``."""

    def __init__(self, state: ConsumerGroupState, context: ConsumerContext, timers: Timers) -> None:
        self.state = state
        self.context = context
        self.timers = timers
        # Topics that the metadata hash was computed from; another object may have other topics.
        self._topics: Mapping[str, TopicImage] | None = None

    def note(self, kind: GroupEventKind, member_id: str = "", detail: str = "") -> None:
        """Add an event to the group's timeline."""
        scope, state = self.context.scope, self.state
        epoch = state.group_epoch
        scope.timeline.note(scope.moment, state.group_id, kind, member_id, epoch, detail)

    @property
    def is_settled(self) -> bool:
        """Whether neither topics nor members have changed since the target was computed."""
        state = self.state
        return (
            state.assignment_epoch == state.group_epoch
            and self._topics is self.context.image().topics
        )

    def refresh(self, changes: Changes, caller: RequestOrigin, *, is_bump_due: bool) -> None:
        """Increase the group epoch if members (``is_bump_due``) or topics have changed.

        Expressions match only topics that the caller may describe, as in Kafka."""
        state, image = self.state, self.context.image()
        if not is_bump_due and self._topics is image.topics:
            return
        found_by = Matching(self.context.compile_pattern, caller.may_describe)
        resolve_expressions(state, changes, image, found_by, self.context.scope.moment.wall_ms)
        found = metadata_hash(state, image)
        if is_bump_due or found != state.metadata_hash:
            reason = "its members have changed" if is_bump_due else "its topics have changed"
            self._bump(changes, found, reason)
        self._topics = image.topics

    def retarget(self, changes: Changes) -> None:
        """Compute the target assignment of the current group epoch if it is missing."""
        state = self.state
        if state.assignment_epoch == state.group_epoch:
            return
        subscribed = subscribed_topics(state, self.context.image())
        task = AssignmentTask(
            partition_counts=subscribed.partition_counts,
            subscribed=subscribed.by_member,
            instance_ids={
                member_id: instance_id for instance_id, member_id in state.static_members.items()
            },
            previous=state.targets,
        )
        assignor = self.assignor_name()
        changed = changed_targets(state.targets, ASSIGNORS[assignor](task))
        for member_id, target in changed:
            # Thousands of targets may exceed one batch. Until the assignment epoch is written too,
            # a coordinator that loads them counts them for the previous epoch.
            changes.allow_break()
            changes.put_target(member_id, target)
        changes.allow_break()
        changes.put_assignment_epoch(state.group_epoch, self.context.scope.moment.wall_ms)
        assert state.targets.keys() <= state.members.keys(), "partitions would wait for no member"
        self.note(
            GroupEventKind.GENERATION,
            detail=f"{assignor} gave {len(changed)} of {len(state.members)} members another target",
        )

    def assignor_name(self) -> str:
        """The assignor that most members ask for; without votes the broker's first one."""
        offered = supported_assignors(self.context)
        votes = Counter(
            member.subscription.server_assignor for member in self.state.members.values()
        )
        # ``max`` returns the first of equals: on a tie the order of the configuration decides.
        return max(offered, key=lambda name: votes[name])

    def reconcile(self, changes: Changes, member: ConsumerGroupMember, report: Report) -> bool:
        """Move the member one step; return whether its assigned partitions have changed."""
        before = member.progress
        after = reconciled(self.state, member, report)
        if after is before:
            return False
        # KIP-848: no other member owns what it gets, as far as all have reported.
        gained = pairs_of(difference(after.assigned, before.assigned))
        assert all(self.state.owners.get(pair) in (None, member.member_id) for pair in gained)
        changes.put_progress(member.member_id, after)
        if after.state is MemberState.UNREVOKED_PARTITIONS and not member.uses_classic_protocol:
            self.timers.start(REVOCATION, member)
        else:
            self.timers.stop(REVOCATION, member.member_id)
        self.note(GroupEventKind.TOLD, member.member_id, _told(after))
        return after.assigned != before.assigned

    def drop(self, changes: Changes, member_ids: Iterable[str]) -> None:
        """Remove these members and release their partitions; a new target is then due."""
        for member_id in member_ids:
            changes.remove_member(member_id)
            assert member_id not in self.state.members, "its partitions would stay with it"
            self.timers.stop_all(member_id)
        # The next heartbeat matches expressions: the topics of one may be too many for a record,
        # which must not prevent a member from leaving.
        state = self.state
        forget_expressions(state, changes)
        self._bump(changes, metadata_hash(state, self.context.image()), "its members have changed")
        self._topics = None

    def mend(self, member_ids: Iterable[str], *, is_begun: bool) -> None:
        """Restore the timers of members whose changes were undone. A group that has not begun has
        no timers."""
        self._topics = None
        for member_id in member_ids:
            member = self.state.members.get(member_id) if is_begun else None
            self.timers.mend(member_id, member)

    def _bump(self, changes: Changes, found_hash: int, reason: str) -> None:
        before = self.state.group_epoch
        changes.put_group_epoch(before + 1, found_hash)
        assert self.state.group_epoch > before, "members tell a new target by its epoch"
        self.note(GroupEventKind.REBALANCE_STARTED, detail=reason)


def supported_assignors(context: ConsumerContext) -> list[str]:
    """The existing assignors in group.consumer.assignors, in their order."""
    configured = context.scope.settings.consumer_assignors
    return [name for name in configured if name in ASSIGNORS] or ["uniform"]


def _told(progress: MemberAssignment) -> str:
    """The member's new assignment, as text."""
    text = f"epoch {progress.member_epoch}, {size_of(progress.assigned)} partitions to own"
    if progress.revoking:
        text += f", {size_of(progress.revoking)} to revoke"
    if progress.state is MemberState.UNRELEASED_PARTITIONS:
        text += ", more when others release them"
    return text
