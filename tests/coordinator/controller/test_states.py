"""States of partitions and replicas: each of Kafka's exists, and only legal ones follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.controller.events import AlterMoves, ReplicasFailed
from ottla.coordinator.controller.specs import MoveSpec, TopicSpec
from ottla.coordinator.controller.states import LEGAL, PartitionStatus, ReplicaState, Transition
from ottla.protocol.ids import TopicPartition
from tests.coordinator.controller.scene import Scene, broker

if TYPE_CHECKING:
    from enum import Enum

T0 = TopicPartition("t", 0)


def path_of(scene: Scene, node_id: int | None) -> list[str]:
    """The states that a replica, or the partition itself, went through."""
    found = [one for one in scene.transitions if one.item == T0 and one.node_id == node_id]
    return [one.after.value for one in found]


@pytest.mark.requirement("CTL-30", "CTL-31")
def test_a_life_goes_through_every_state() -> None:
    """Made, failed, back, moved elsewhere, deleted; the scene fails at any illegal step."""
    scene = Scene(broker(1), broker(2), broker(3))
    scene.create(TopicSpec("t", assignment={0: [1, 2]}))
    assert path_of(scene, 1) == ["NewReplica", "OnlineReplica"]
    assert path_of(scene, None) == ["NewPartition", "OnlinePartition"]
    scene.transitions.clear()
    scene.live(broker(3))
    assert path_of(scene, 1) == ["OfflineReplica"]
    assert path_of(scene, None) == ["OfflinePartition"]
    scene.live(broker(1, 2, 1), broker(2, 2, 1), broker(3))
    assert path_of(scene, 1) == ["OfflineReplica", "OnlineReplica"]
    assert path_of(scene, None)[1:] == ["OnlinePartition"]
    scene.transitions.clear()
    scene.handle(AlterMoves((MoveSpec(T0, (3,)),)))
    assert path_of(scene, 3) == ["NewReplica"]
    scene.leader_writes("t", 0, (1, 2, 3))
    assert path_of(scene, 3) == ["NewReplica", "OnlineReplica"]
    assert path_of(scene, 1) == ["OfflineReplica", "NonExistentReplica"]
    scene.transitions.clear()
    scene.delete("t")

    assert path_of(scene, 3) == ["OfflineReplica", "NonExistentReplica"]
    assert path_of(scene, None) == ["OfflinePartition", "NonExistentPartition"]
    assert scene.states.of(T0, 3) is ReplicaState.NON_EXISTENT


def test_a_new_election_is_a_transition_too() -> None:
    """The log of state changes is how an operator learns who led when."""
    scene = Scene(broker(1), broker(2))
    scene.create(TopicSpec("t", assignment={0: [1, 2]}))
    scene.transitions.clear()
    scene.handle(ReplicasFailed(1, (T0,)))

    online = PartitionStatus.ONLINE
    assert scene.transitions == [Transition(T0, None, online, online)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ReplicaState.NON_EXISTENT, ReplicaState.ONLINE),
        (ReplicaState.ONLINE, ReplicaState.NEW),
        (ReplicaState.ONLINE, ReplicaState.NON_EXISTENT),
        (PartitionStatus.NON_EXISTENT, PartitionStatus.ONLINE),
        (PartitionStatus.ONLINE, PartitionStatus.NEW),
        (PartitionStatus.ONLINE, PartitionStatus.NON_EXISTENT),
    ],
)
def test_some_states_never_follow_each_other(before: Enum, after: Enum) -> None:
    """A check that nothing can fail shows nothing."""
    assert not Transition(T0, None, before, after).is_legal
    assert set(LEGAL) == {*ReplicaState, *PartitionStatus}
