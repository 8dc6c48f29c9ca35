"""Moving one partition's replicas to other brokers (KIP-455): pure rules on its state.

With the replicas it had (origin) and those it is to have (target), the documented steps are:

    begin            origin + target in the topic's znode, a higher leader epoch, all are told;
                     replicas of the target that are new begin to fetch
    wait             until the whole target is in the ISR
    elect            if the leader is not of the target, the first of it that can leads
    shrink           the others leave the ISR, and are stopped and deleted
    finish           only the target is left in the topic's znode

The next step follows from the state alone, so that another controller can continue after any of
them.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from ottla.coordinator.metadata.image import NO_LEADER, PartitionState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.coordinator.controller.leadership import Circumstances


class MoveStep(Enum):
    """What a move needs next."""

    WAIT = "wait"
    ELECT = "elect"
    SHRINK = "shrink"


def begin(
    state: PartitionState, target: Sequence[int], now: Circumstances
) -> PartitionState | None:
    """The state that begins a move to the target; None if it is impossible.

    A move under way is abandoned: replicas that it was adding and the new target lacks are removed
    at once. Impossible if no other replica is in sync, or could lead."""
    origin = state.origin
    wanted = tuple(target)
    replicas = (*wanted, *(one for one in origin if one not in wanted))
    adding = tuple(one for one in wanted if one not in origin)
    removing = tuple(one for one in origin if one not in wanted)
    begun = replace(state, replicas=replicas, adding=adding, removing=removing)
    # The next controller continues or cancels the move from the state alone.
    assert begun.target == wanted
    assert set(begun.origin) == set(origin)
    if not state.has_state:
        return begun
    # Removed replicas must neither lead nor be waited for.
    isr = tuple(one for one in state.isr if one in replicas)
    eligible = tuple(one for one in state.eligible_leaders if one in replicas)
    leader = state.leader
    if leader not in replicas:
        leader = next((one for one in now.leaders(replicas) if one in isr), NO_LEADER)
    has_lost_all = bool(state.eligible_leaders) and not isr and not eligible
    if (
        (state.isr and not isr)
        or has_lost_all
        or (leader == NO_LEADER and state.leader != NO_LEADER)
    ):
        return None
    return replace(
        begun,
        leader=leader,
        isr=isr,
        eligible_leaders=eligible,
        leader_epoch=state.leader_epoch + 1,
        controller_epoch=now.controller_epoch,
    )


def next_step(state: PartitionState, now: Circumstances) -> MoveStep:
    """What to do for a partition whose replicas are being moved."""
    target = state.target
    if not target or not state.has_state or not set(target) <= set(state.isr):
        return MoveStep.WAIT
    if state.leader in target:
        return MoveStep.SHRINK if state.leader in now.live else MoveStep.WAIT
    return MoveStep.ELECT if any(now.may_lead(one) for one in target) else MoveStep.WAIT


def elect(state: PartitionState, now: Circumstances) -> PartitionState:
    """The first of the target that can becomes leader; the ISR stays."""
    leader = now.leaders(state.target)[0]
    assert leader in state.isr, "the move waits until the whole target is in the ISR"
    return replace(
        state,
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        controller_epoch=now.controller_epoch,
    )


def shrink(state: PartitionState, now: Circumstances) -> PartitionState:
    """Reduce the ISR to the target. The epoch grows even if it was so: a leader accepts another
    set of replicas only with a new epoch."""
    target = state.target
    assert state.leader in target
    assert set(target) <= set(state.isr), "replicas that hold all records are deleted next"
    return replace(
        state,
        isr=tuple(one for one in state.isr if one in target),
        eligible_leaders=(),
        leader_epoch=state.leader_epoch + 1,
        controller_epoch=now.controller_epoch,
    )


def finish(state: PartitionState) -> PartitionState:
    """The move is over."""
    assert state.leader in state.target, "the leader would not be one of the replicas"
    return replace(state, replicas=state.target, adding=(), removing=())
