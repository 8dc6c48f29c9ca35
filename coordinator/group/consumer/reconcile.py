"""Computes one member's next step from its current assignment to its target.

The invariant (KIP-848): a member first revokes what is not in its target, then enters the target's
epoch, then gets what is free. A partition is free once its previous owner has *reported* that it
revoked it, so two members never believe they own the same one:
1. A has p, the new target gives p to B.
2. A has to revoke p and keeps its epoch; p stays in A's ``revoking``.
3. B enters the new epoch without p (UNRELEASED_PARTITIONS), p is still owned.
4. A reports what it owns, without p; only now A loses p and enters the new epoch.
5. B's next heartbeat gets p.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.assignment import (
    NOTHING,
    Assignment,
    difference,
    from_pairs,
    intersection,
    is_subset,
    pairs_of,
    union,
)
from ottla.coordinator.group.consumer.member import (
    ConsumerGroupMember,
    MemberAssignment,
    MemberState,
)
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.group.consumer.state import ConsumerGroupState


class Report(NamedTuple):
    """The partitions that a member reports for its current epoch; None if it reports none.

    ``is_final``: the member is not taking up partitions, as in a join, before which it has revoked
    everything else. In a heartbeat a partition may be missing because the member has not taken it
    up *yet*: it counts as revoked only after the member was asked to revoke it."""

    owned: Assignment | None
    is_final: bool = False


def reconciled(
    state: ConsumerGroupState, member: ConsumerGroupMember, report: Report
) -> MemberAssignment:
    """The member's progress after its report; the same object if nothing changes."""
    progress = member.progress
    match progress.state:
        case MemberState.STABLE:
            if progress.member_epoch == state.assignment_epoch:
                return progress
            return _next(state, member, progress, report)
        case MemberState.UNREVOKED_PARTITIONS:
            if report.owned is None or intersection(progress.revoking, report.owned):
                return progress
            # Revoking is a step of its own: if the newest target requires more revocations, the
            # epoch distinguishes that request from the one that the member has just fulfilled.
            epoch = min(progress.member_epoch + 1, state.assignment_epoch)
            done = progress._replace(member_epoch=epoch, revoking=NOTHING)
            return _next(state, member, done, report)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(state, member, progress, report)


def _next(
    state: ConsumerGroupState,
    member: ConsumerGroupMember,
    progress: MemberAssignment,
    report: Report,
) -> MemberAssignment:
    target = state.target_of(member.member_id)
    kept = intersection(progress.assigned, target)
    surplus = difference(progress.assigned, target)
    is_held = report.owned is None or bool(intersection(surplus, report.owned))
    if surplus and (is_held or not report.is_final):
        return _moved(
            member.progress, progress.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, surplus
        )
    wanted = list(pairs_of(difference(target, kept)))
    # Partitions that the member itself has just revoked are free for it at once.
    free = [pair for pair in wanted if state.owners.get(pair) in (None, member.member_id)]
    is_waiting = len(free) < len(wanted)
    assigned = union(kept, from_pairs(free)) if free else kept
    assert is_subset(assigned, target)
    return _moved(
        member.progress,
        state.assignment_epoch,
        MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
        assigned,
    )


def _moved(
    before: MemberAssignment,
    member_epoch: int,
    state: MemberState,
    assigned: Assignment,
    revoking: Assignment = NOTHING,
) -> MemberAssignment:
    """The new progress with its previous epoch; the same object if nothing differs.

    The previous epoch admits a member that retries because a response was lost. A step within
    one epoch keeps it: that member may have missed several responses."""
    is_same_epoch = member_epoch == before.member_epoch
    previous = before.previous_member_epoch if is_same_epoch else before.member_epoch
    after = MemberAssignment(member_epoch, previous, state, assigned, revoking)
    return before if after == before else after


def can_be_completed(state: ConsumerGroupState, member: ConsumerGroupMember) -> bool:
    """Whether all partitions that the member waits for are free."""
    if member.progress.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    missing = difference(state.target_of(member.member_id), member.progress.assigned)
    return all(pair not in state.owners for pair in pairs_of(missing))
