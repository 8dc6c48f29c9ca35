"""Moving replicas: the documented sequence, and what interrupts it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.coordinator.controller.events import (
    AlterMoves,
    DeleteTopics,
    MovesAsked,
    StatesRead,
    TopicsRead,
)
from ottla.coordinator.controller.leadership import Circumstances
from ottla.coordinator.controller.moves import MoveStep, begin, next_step
from ottla.coordinator.controller.specs import MoveSpec, TopicDeletion, TopicSpec
from ottla.coordinator.controller.states import ReplicaState
from ottla.coordinator.controller.writes import payload_of, topic_data
from ottla.coordinator.metadata.image import NO_LEADER, PartitionState
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Create, Replace
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from tests.coordinator.controller.moving import ALL, MOVED, T0, Watched
from tests.coordinator.controller.scene import Scene, broker, partition_errors, requests_to

OLD, NEW, BOTH = {1, 2, 3}, {4, 5, 6}, set(ALL)
TABLE = [
    (OLD, 1, OLD),
    (BOTH, 1, OLD),
    (BOTH, 1, BOTH),
    (BOTH, 4, BOTH),
    (BOTH, 4, NEW),
    (NEW, 4, NEW),
]


@pytest.mark.requirement("CTL-34", "CTL-37", "CTL-40", "CTL-41", "CTL-43", "CTL-45")
def test_the_store_shows_the_documented_sequence() -> None:
    """At no point is there a set of replicas or an ISR without all that was committed."""
    scene = Watched()
    assert scene.ask(MOVED) == [ErrorCode.NONE]
    scene.leader_writes("t", 0, ALL)

    assert scene.rows == TABLE


@pytest.mark.requirement("CTL-37")
def test_nothing_happens_before_every_new_replica_is_in_sync() -> None:
    """One that is still copying does not hold all that was committed."""
    scene = Watched()
    scene.ask(MOVED)
    before = scene.state("t", 0)
    scene.leader_writes("t", 0, (1, 2, 3, 4, 5))
    scene.leader_writes("t", 0, (1, 4, 5))
    scene.elect()

    state = scene.state("t", 0)
    assert (state.leader, state.leader_epoch) == (1, before.leader_epoch)
    assert state.replicas == before.replicas


@pytest.mark.requirement("CTL-35", "CTL-36", "CTL-38", "CTL-39", "CTL-42")
def test_each_broker_is_told_its_part_at_its_time() -> None:
    """New replicas are made and fetch; old ones follow, stop, and delete what they had."""
    scene = Watched()
    scene.sent.clear()
    scene.ask(MOVED)
    assert {scene.states.of(T0, node_id) for node_id in (4, 5, 6)} == {ReplicaState.NEW}
    begun = [(1, 1, [1, 2, 3], list(ALL))]
    for node_id in ALL:
        assert scene.answers_to(node_id) == [(*begun[0], node_id > 3)]
    payload = paths.parse_topic(scene.tree.get(paths.topic("t")).data)
    assert payload is not None
    assert payload.partitions == {0: (4, 5, 6, 1, 2, 3)}
    assert (payload.adding, payload.removing) == ({0: (4, 5, 6)}, {0: (1, 2, 3)})
    scene.sent.clear()
    scene.leader_writes("t", 0, ALL)

    assert {scene.states.of(T0, node_id) for node_id in (4, 5, 6)} == {ReplicaState.ONLINE}
    elected = (4, 2, list(ALL), list(ALL), False)
    # Ahead of the store: the old replicas count no more, though its znode still names them.
    shrunk = (4, 3, [4, 5, 6], [4, 5, 6], False)
    for node_id in (4, 5, 6):
        assert scene.answers_to(node_id) == [elected, shrunk]
        assert scene.deleted_on(node_id) == []
    for node_id in (1, 2, 3):
        assert scene.answers_to(node_id) == [elected]
        assert scene.deleted_on(node_id) == [(3, True)]
    payload = paths.parse_topic(scene.tree.get(paths.topic("t")).data)
    assert payload is not None
    assert payload == paths.TopicPayload(payload.topic_id, {0: (4, 5, 6)})


@pytest.mark.requirement("CTL-46")
@pytest.mark.parametrize("crash_after", range(5))
@pytest.mark.parametrize("by_znode", [False, True])
def test_a_move_survives_the_death_of_the_controller_after_any_write(
    crash_after: int, by_znode: bool
) -> None:
    """What is to be done next follows from the store alone."""
    scene = Watched()
    moves = {T0: (4, 5, 6)}
    if by_znode:
        scene.apply((Create(paths.REASSIGN_PARTITIONS, paths.build_moves(moves)),))
    scene.crash_after = crash_after

    def ask() -> None:
        if by_znode:
            node = scene.tree.get(paths.REASSIGN_PARTITIONS)
            scene.handle(MovesAsked(paths.parse_moves(node.data), node.stat.version))
        else:
            scene.handle(AlterMoves((MOVED,)))

    ask()
    if scene.is_dead:
        scene.succeed()
        ask()
    scene.leader_writes("t", 0, (1, 2, 3, 4, 5, 6))
    if scene.is_dead:
        scene.succeed()
        if by_znode and scene.tree.exists(paths.REASSIGN_PARTITIONS) is not None:
            ask()

    assert scene.rows == TABLE
    assert not scene.state("t", 0).is_moving
    assert scene.controller.moving == frozenset()
    assert scene.tree.exists(paths.REASSIGN_PARTITIONS) is None
    # The second time, if necessary: without a StopReplica request a replica stays on its disk.
    assert (3, True) in scene.deleted_on(1) or crash_after == 4


@pytest.mark.requirement("CTL-04", "CTL-44", "ZKT-15")
def test_moves_that_a_znode_asks_for_are_done_and_the_znode_goes() -> None:
    """As older tools ask; one entry after the other leaves it, the last takes it away."""
    scene = Watched()
    scene.create(TopicSpec("u", assignment={0: [1], 1: [2]}))
    asked = {
        T0: (4, 5, 6),
        TopicPartition("u", 0): (2,),
        TopicPartition("u", 1): (9,),
        TopicPartition("none", 0): (1,),
    }
    scene.apply((Create(paths.REASSIGN_PARTITIONS, paths.build_moves(asked)),))
    scene.elect()
    scene.handle(MovesAsked(asked, 0))

    def left() -> list[TopicPartition]:
        return list(paths.parse_moves(scene.tree.get(paths.REASSIGN_PARTITIONS).data) or ())

    assert left() == [T0, TopicPartition("u", 0)]
    scene.leader_writes("u", 0, (1, 2))
    assert scene.state("u", 0).replicas == (2,)
    assert left() == [T0]
    scene.leader_writes("t", 0, ALL)
    assert scene.tree.exists(paths.REASSIGN_PARTITIONS) is None
    scene.handle(MovesAsked(None))
    scene.apply((Create(paths.REASSIGN_PARTITIONS, b"nonsense"),))
    scene.handle(MovesAsked({}, 0))
    assert scene.tree.exists(paths.REASSIGN_PARTITIONS) is None


def test_many_partitions_move_in_the_same_steps() -> None:
    """Partition by partition, a broker of thousands would take hours to empty."""
    scene = Scene(*(broker(node_id) for node_id in (1, 2, 3)))
    scene.create(TopicSpec("t", assignment={index: [1] for index in range(900)}))
    items = [TopicPartition("t", index) for index in range(900)]
    scene.sent.clear()
    moves = tuple(MoveSpec(item, (2,)) for item in items)
    assert set(partition_errors(scene.handle(AlterMoves(moves)))) == {ErrorCode.NONE}
    assert len(scene.sent) == 1
    assert len(requests_to(scene.sent[0], 2, LeaderAndIsrRequest)) == 1
    assert all(len(write.operations) <= 1000 for write in scene.sent[0].records)
    arrived = {
        item: replace(scene.state(*item), isr=(1, 2), partition_epoch=2) for item in items[:3]
    }
    for item, state in arrived.items():
        scene.apply((Replace(paths.state(*item), paths.build_state(payload_of(state)), 1),))
    scene.sent.clear()
    scene.handle(StatesRead(arrived))

    assert scene.controller.moving == set(items[3:])
    assert scene.state(*items[2]).replicas == (2,)
    assert len(requests_to(scene.sent[1], 2, LeaderAndIsrRequest)) == 1
    assert len(scene.sent) == 4


def test_a_move_waits_for_a_dead_broker_and_goes_on_when_it_is_back() -> None:
    """The old replicas go only when the new ones have everything."""
    scene = Watched()
    scene.ask(MOVED)
    scene.leader_writes("t", 0, (1, 2, 3, 4, 5))
    scene.live(*(broker(node_id) for node_id in (1, 2, 3, 4, 5)))
    scene.leader_writes("t", 0, (1, 2, 3, 4))
    assert scene.state("t", 0).is_moving
    assert scene.state("t", 0).leader == 1
    scene.live(*(broker(node_id) for node_id in (2, 3, 4, 5)), broker(6, 2))
    assert scene.state("t", 0).leader == 4
    scene.leader_writes("t", 0, (2, 3, 4, 5, 6))

    assert scene.state("t", 0).replicas == (4, 5, 6)
    assert scene.state("t", 0).leader == 4


@pytest.mark.requirement("CTL-40")
def test_a_partition_can_be_moved_away_from_dead_brokers() -> None:
    """That is what operators do when a machine will not come back."""
    scene = Watched()
    scene.live(*(broker(node_id) for node_id in (1, 4, 5, 6)))
    assert scene.ask(MoveSpec(T0, (1, 4))) == [ErrorCode.NONE]
    scene.leader_writes("t", 0, (1, 4))

    assert scene.state("t", 0).replicas == (1, 4)
    assert scene.state("t", 0).leader == 1
    # The leader stays, but takes in the new set of replicas with a new epoch only.
    assert scene.answers_to(4)[-1] == (1, 3, [1, 4], [1, 4], False)


def test_a_topic_that_is_being_moved_can_be_deleted() -> None:
    """Old and new replicas go alike, and nothing is left to be moved."""
    scene = Watched()
    scene.apply((Create(paths.REASSIGN_PARTITIONS, paths.build_moves({T0: (4, 5, 6)})),))
    scene.handle(MovesAsked({T0: (4, 5, 6)}, 0))
    scene.sent.clear()
    deletion = TopicDeletion("t", scene.subtree("t"))
    scene.handle(DeleteTopics((deletion,)))

    assert scene.controller.moving == frozenset()
    assert scene.tree.exists(paths.REASSIGN_PARTITIONS) is None
    for node_id in ALL:
        assert scene.deleted_on(node_id) == [(-2, True)]


def test_a_partition_that_an_operator_removes_by_hand_is_no_longer_moved() -> None:
    """The controller must not look for it in the topic, and must continue the other moves."""
    scene = Scene(*(broker(node_id) for node_id in (1, 2, 3)))
    scene.create(TopicSpec("t", assignment={0: (1, 2), 1: (1, 2)}))
    second = TopicPartition("t", 1)
    scene.handle(AlterMoves((MoveSpec(T0, (1, 3)), MoveSpec(second, (1, 3)))))
    topic, path = scene.read_topic("t"), paths.topic("t")
    smaller = replace(topic, partitions={0: topic.partitions[0]})
    scene.apply((Replace(path, topic_data(smaller)),))
    versions = {"t": scene.tree.get(path).stat.version}
    scene.handle(TopicsRead(frozenset({"t"}), (smaller,), versions=versions))
    assert scene.controller.moving == {T0}
    scene.leader_writes("t", 0, (1, 2, 3))

    assert scene.state("t", 0).replicas == (1, 3)
    assert scene.controller.moving == frozenset()


def test_a_refused_step_is_not_taken_for_done() -> None:
    """R-30: the leader changes its ISR at that very moment, to just what the step would make; it
    and the old replicas must hear of the new set all the same."""
    scene = Watched()
    scene.ask(MoveSpec(T0, (1, 4)))
    scene.crash_after = 0
    scene.leader_writes("t", 0, (1, 2, 3, 4))
    assert scene.is_dead
    scene.is_dead, scene.crash_after = False, None
    scene.leader_writes("t", 0, (1, 4))

    assert scene.state("t", 0).replicas == (1, 4)
    assert scene.answers_to(4)[-1] == (1, 2, [1, 4], [1, 4], False)
    assert scene.deleted_on(2) == [(2, True)]


def test_the_next_step_follows_from_the_state() -> None:
    """Rules, one by one."""
    now = Circumstances(frozenset({1, 2, 3}))
    moving = PartitionState((3, 1), 1, 4, (1,), 9, adding=(3,), removing=(1,))
    assert next_step(moving, now) is MoveStep.WAIT
    both = PartitionState((3, 1), 1, 4, (1, 3), 9, adding=(3,), removing=(1,))
    assert next_step(both, now) is MoveStep.ELECT
    assert next_step(both, Circumstances(frozenset({1}))) is MoveStep.WAIT
    led = PartitionState((3, 1), 3, 4, (1, 3), 9, adding=(3,), removing=(1,))
    assert next_step(led, now) is MoveStep.SHRINK
    assert next_step(PartitionState((3, 1), adding=(3,)), now) is MoveStep.WAIT
    without = begin(PartitionState((1,)), (2,), now)
    assert without is not None
    assert (without.replicas, without.leader, without.leader_epoch) == ((2, 1), NO_LEADER, 0)


def test_a_move_does_not_leave_the_last_eligible_leader_behind() -> None:
    """R-21: with both lists empty no replica is ever elected again, though this one has all records
    and may only be away."""
    state = PartitionState(
        (4, 1, 2, 3),
        leader=NO_LEADER,
        leader_epoch=7,
        isr=(),
        partition_epoch=3,
        eligible_leaders=(4,),
        adding=(4,),
    )

    assert begin(state, (1, 2, 3), Circumstances(live=frozenset({1, 2, 3}))) is None
    assert begin(state, (4, 1), Circumstances(live=frozenset({1, 2, 3}))) is not None
