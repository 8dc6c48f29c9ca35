"""The states of a classic group and their responses.

| state | JoinGroup | SyncGroup | Heartbeat |
|---|---|---|---|
| Empty | opens the first round | UNKNOWN_MEMBER_ID | UNKNOWN_MEMBER_ID |
| PreparingRebalance | parked | REBALANCE_IN_PROGRESS | REBALANCE_IN_PROGRESS |
| CompletingRebalance | answered again; with a change a rebalance | parked | NONE |
| Stable | the same, but from the leader always a rebalance | the assignment | NONE |
| Dead | none: the shard was unloaded | | |

Empty ends when a client joins; PreparingRebalance when all members have joined, or at the join
timer; CompletingRebalance when the assignment is stored, or at the sync timer; Stable when a
member joins, changes or leaves.
A silent member is removed by its session, the join timer or the sync timer, so no state waits for
a member without limit (hazard G-06).
"""

from __future__ import annotations

from enum import Enum


class ClassicGroupState(Enum):
    """The values are the names in ListGroups and DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_MAY_FOLLOW = {
    ClassicGroupState.EMPTY: {ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD},
    ClassicGroupState.PREPARING_REBALANCE: {
        ClassicGroupState.COMPLETING_REBALANCE,
        ClassicGroupState.EMPTY,
        ClassicGroupState.DEAD,
    },
    ClassicGroupState.COMPLETING_REBALANCE: {
        ClassicGroupState.STABLE,
        ClassicGroupState.PREPARING_REBALANCE,
        ClassicGroupState.DEAD,
    },
    ClassicGroupState.STABLE: {ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD},
    ClassicGroupState.DEAD: {ClassicGroupState.DEAD},
}


def may_follow(state: ClassicGroupState, following: ClassicGroupState) -> bool:
    """Whether the transition is allowed."""
    return following in _MAY_FOLLOW[state]
