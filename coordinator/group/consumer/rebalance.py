"""Group epoch, target assignment and members' steps: the three loops of KIP-848.

1. The group epoch grows when members come, go or change what they want, or topics change.
2. When it is ahead of the assignment epoch, the next heartbeat has a new target computed.
3. Each member is led towards the target on its own, heartbeat by heartbeat (reconcile.py).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.coordinator.group.common.timeline import GroupEventKind
from ottla.coordinator.group.consumer.assignment import size_of
from ottla.coordinator.group.consumer.assignors import ASSIGNORS, AssignmentTask
from ottla.coordinator.group.consumer.changes import changed_targets
from ottla.coordinator.group.consumer.member import MemberState
from ottla.coordinator.group.consumer.reconcile import reconciled
from ottla.coordinator.group.consumer.subscriptions import (
    forget_expressions,
    metadata_hash,
    resolve_expressions,
    subscribed_topics,
)
from ottla.coordinator.group.consumer.timers import REVOCATION, Timers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.coordinator.group.consumer.changes import Changes
    from ottla.coordinator.group.consumer.context import ConsumerContext
    from ottla.coordinator.group.consumer.member import ConsumerGroupMember, MemberAssignment
    from ottla.coordinator.group.consumer.reconcile import Report
    from ottla.coordinator.group.consumer.state import ConsumerGroupState
    from ottla.coordinator.metadata.image import TopicImage


class Rebalancing:
    """One per group. Every method writes what it decides into the ``Changes`` it is given."""

    def __init__(self, state: ConsumerGroupState, context: ConsumerContext, timers: Timers) -> None:
        self.state = state
        self.context = context
        self.timers = timers
        # The topics that the metadata hash was computed from; another object may be other topics.
        self._topics: Mapping[str, TopicImage] | None = None

    def note(self, kind: GroupEventKind, member_id: str = "", detail: str = "") -> None:
        """For whoever asks later what happened in the group, and why."""
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

    def refresh(self, changes: Changes, *, is_bump_due: bool) -> None:
        """Let the group epoch grow where members (``is_bump_due``) or topics have changed."""
        state, image = self.state, self.context.image()
        if not is_bump_due and self._topics is image.topics:
            return
        compile_pattern = self.context.compile_pattern
        resolve_expressions(
            state, changes, image, compile_pattern, self.context.scope.moment.wall_ms
        )
        found = metadata_hash(state, image)
        if is_bump_due or found != state.metadata_hash:
            reason = "its members have changed" if is_bump_due else "its topics have changed"
            self._bump(changes, found, reason)
        self._topics = image.topics

    def retarget(self, changes: Changes) -> None:
        """Compute the target assignment of the present group epoch, unless it is there."""
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
            # Of thousands of members they may be more than a batch holds. Until the assignment
            # epoch is there too, whoever loads them takes them for those of before.
            changes.allow_break()
            changes.put_target(member_id, target)
        changes.allow_break()
        changes.put_assignment_epoch(state.group_epoch, self.context.scope.moment.wall_ms)
        self.note(
            GroupEventKind.GENERATION,
            detail=f"{assignor} gave {len(changed)} of {len(state.members)} members another target",
        )

    def assignor_name(self) -> str:
        """What most members ask for; the broker's first one where nobody asks."""
        offered = supported_assignors(self.context)
        votes = Counter(
            member.subscription.server_assignor for member in self.state.members.values()
        )
        # ``max`` takes the first of equals, so a tie goes to the order of the configuration.
        return max(offered, key=lambda name: votes[name])

    def reconcile(self, changes: Changes, member: ConsumerGroupMember, report: Report) -> bool:
        """Lead the member one step on. Whether what it may own has changed."""
        before = member.progress
        after = reconciled(self.state, member, report)
        if after is before:
            return False
        changes.put_progress(member.member_id, after)
        if after.state is MemberState.UNREVOKED_PARTITIONS and not member.uses_classic_protocol:
            self.timers.start(REVOCATION, member)
        else:
            self.timers.stop(REVOCATION, member.member_id)
        self.note(GroupEventKind.TOLD, member.member_id, _told(after))
        return after.assigned != before.assigned

    def drop(self, changes: Changes, member_ids: Iterable[str]) -> None:
        """These members are gone: their partitions are free, a new target is due."""
        for member_id in member_ids:
            changes.remove_member(member_id)
            self.timers.stop_all(member_id)
        # Expressions are matched by the next heartbeat: the topics of one may be too many for a
        # record, which must keep nobody from leaving.
        state = self.state
        forget_expressions(state, changes)
        self._bump(changes, metadata_hash(state, self.context.image()), "its members have changed")
        self._topics = None

    def mend(self, member_ids: Iterable[str], *, is_begun: bool) -> None:
        """A step was taken back that these members had a part in. Nobody has timers in a group
        that has not begun."""
        self._topics = None
        for member_id in member_ids:
            member = self.state.members.get(member_id) if is_begun else None
            self.timers.mend(member_id, member)

    def _bump(self, changes: Changes, found_hash: int, reason: str) -> None:
        changes.put_group_epoch(self.state.group_epoch + 1, found_hash)
        self.note(GroupEventKind.REBALANCE_STARTED, detail=reason)


def supported_assignors(context: ConsumerContext) -> list[str]:
    """Those of group.consumer.assignors that exist here, in their order."""
    configured = context.scope.settings.consumer_assignors
    return [name for name in configured if name in ASSIGNORS] or ["uniform"]


def _told(progress: MemberAssignment) -> str:
    """What a member is told, in few words."""
    text = f"epoch {progress.member_epoch}, {size_of(progress.assigned)} partitions to own"
    if progress.revoking:
        text += f", {size_of(progress.revoking)} to revoke"
    if progress.state is MemberState.UNRELEASED_PARTITIONS:
        text += ", more when others release them"
    return text
