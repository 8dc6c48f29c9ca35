"""The states of a classic group, and what each of them answers.

| state | JoinGroup | SyncGroup | Heartbeat |
|---|---|---|---|
| Empty | opens the first round | UNKNOWN_MEMBER_ID | UNKNOWN_MEMBER_ID |
| PreparingRebalance | parked | REBALANCE_IN_PROGRESS | REBALANCE_IN_PROGRESS |
| CompletingRebalance | told again, or with a change a new round | parked | NONE |
| Stable | the same, but from the leader always a new round | the assignment | NONE |
| Dead | never asked: the shard has ended | | |

Empty ends when somebody joins; PreparingRebalance when all have joined, or at the join timer;
CompletingRebalance when the assignment is stored, or at the sync timer; Stable when somebody
comes, changes or goes.
A member that stays silent is removed by its session, by the join timer or by the sync timer, so
no state waits for anybody for ever (hazard G-06).
"""

from __future__ import annotations

from enum import Enum


class ClassicGroupState(Enum):
    """The values are Kafka's words in ListGroups and DescribeGroups."""

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
    """Whether a group may go from the one state to the other."""
    return following in _MAY_FOLLOW[state]
