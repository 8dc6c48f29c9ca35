"""A deletion stays owed until every broker that had a replica has answered it."""

from __future__ import annotations

from ottla.coordinator.controller.events import ReplicasDeleted, TopicsRead, UnregisterBroker
from ottla.coordinator.controller.specs import TopicSpec, UnregisterResult
from ottla.coordinator.controller.writes import OPERATIONS_PER_WRITE_MAX
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Delete
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from tests.coordinator.controller.scene import Scene, broker, requests_to


def owed(scene: Scene) -> list[tuple[str, int, tuple[int, ...]]]:
    return [(one.name, one.partition_count, one.brokers) for one in scene.deleted()]


def scene_with_topic() -> tuple[Scene, bytes]:
    """Two partitions, on brokers 1 and 2 and on 1 and 3."""
    scene = Scene(broker(1), broker(2), broker(3))
    (made,) = scene.create(TopicSpec("t", assignment={0: [1, 2], 1: [1, 3]}))
    return scene, made.topic_id


def test_a_deletion_is_recorded_until_all_its_brokers_have_answered() -> None:
    """The usual case: all brokers are alive, and one write removes the record."""
    scene, topic_id = scene_with_topic()
    scene.delete("t")
    assert owed(scene) == [("t", 2, (1, 2, 3))]
    for node_id in (1, 3, 3):
        assert scene.handle(ReplicasDeleted(node_id, (topic_id,))).records == ()
    scene.handle(ReplicasDeleted(2, (topic_id, b"unknown topic id")))

    assert owed(scene) == []


def test_a_dead_broker_is_told_of_the_deletion_when_it_registers() -> None:
    """Before it hears of its roles: the name may be another topic's by then."""
    scene, topic_id = scene_with_topic()
    scene.live(broker(1), broker(3))
    scene.delete("t")
    for node_id in (1, 3):
        scene.handle(ReplicasDeleted(node_id, (topic_id,)))
    assert owed(scene) == [("t", 2, (2,))]
    (again,) = scene.create(TopicSpec("t", assignment={0: [1, 3]}))
    decision = scene.live(broker(1), broker(2, 2), broker(3))

    to_second = [one.request for one in decision.messages if one.node_id == 2]
    (stop,) = requests_to(decision, 2, StopReplicaRequest)
    (topic,) = stop.topic_states
    assert (topic.topic_name, topic.topic_id) == ("t", topic_id)
    assert (again.error_code, again.topic_id != topic_id) == (0, True)
    assert [(one.partition_index, one.delete_partition) for one in topic.partition_states] == [
        (0, True),
        (1, True),
    ]
    kinds = [type(request) for request in to_second]
    assert kinds.index(StopReplicaRequest) < kinds.index(LeaderAndIsrRequest)
    assert requests_to(decision, 1, StopReplicaRequest) == []
    scene.handle(ReplicasDeleted(2, (topic_id,)))
    assert owed(scene) == []


def test_the_next_controller_asks_all_that_may_not_have_heard() -> None:
    """The controller that deleted the topic may have died before it told any broker."""
    scene, topic_id = scene_with_topic()
    scene.delete("t")
    scene.elect()
    decision = scene.sent[-1]

    for node_id in (1, 2, 3):
        (stop,) = requests_to(decision, node_id, StopReplicaRequest)
        assert [topic.topic_id for topic in stop.topic_states] == [topic_id]
    for node_id in (1, 2, 3):
        scene.handle(ReplicasDeleted(node_id, (topic_id,)))
    scene.elect()
    assert owed(scene) == []
    assert requests_to(scene.sent[-1], 1, StopReplicaRequest) == []


def test_a_broker_that_has_answered_is_not_asked_again() -> None:
    """Unless another controller took over meanwhile, which cannot know."""
    scene, topic_id = scene_with_topic()
    scene.live(broker(1), broker(2))
    scene.delete("t")
    scene.handle(ReplicasDeleted(1, (topic_id,)))
    decision = scene.live(broker(1, 2), broker(2, 2))

    assert requests_to(decision, 1, StopReplicaRequest) == []
    assert len(requests_to(decision, 2, StopReplicaRequest)) == 1


def test_a_topic_whose_znode_was_removed_by_hand_is_owed_as_well() -> None:
    """The living brokers delete it; so do the others, later."""
    scene, _ = scene_with_topic()
    for path in scene.subtree("t"):
        scene.apply((Delete(path),))
    scene.handle(TopicsRead(frozenset(), ()))

    assert owed(scene) == [("t", 2, (1, 2, 3))]
    assert scene.tree.exists(paths.topic("t")) is None


def test_more_topics_than_fit_into_a_write_may_be_removed_by_hand_at_once() -> None:
    """An operator removed all of /brokers/topics: the controller records what brokers owe."""
    scene = Scene(broker(1))
    names = [f"t{number}" for number in range(OPERATIONS_PER_WRITE_MAX + 1)]
    scene.create(*(TopicSpec(name, 1, 1) for name in names))
    scene.handle(TopicsRead(frozenset(), ()))

    assert len(owed(scene)) == len(names)
    assert scene.controller.image.topics == {}


def unregister(scene: Scene, node_id: int) -> ErrorCode:
    """What an operator who says that the broker will not come back is answered."""
    reply = scene.handle(UnregisterBroker(node_id)).reply
    assert isinstance(reply, UnregisterResult)
    return reply.error_code


def test_a_deletion_no_longer_waits_for_a_broker_that_an_operator_unregistered() -> None:
    """The records would stay for ever. Others of the same topic still owe their answer."""
    scene, topic_id = scene_with_topic()
    scene.create(TopicSpec("u", assignment={0: [2]}))
    scene.live(broker(1))
    scene.delete("t")
    scene.delete("u")
    scene.handle(ReplicasDeleted(1, (topic_id,)))
    assert sorted(owed(scene)) == [("t", 2, (2, 3)), ("u", 1, (2,))]
    code = unregister(scene, 2)
    left = owed(scene)
    scene.elect()

    assert code is ErrorCode.NONE
    assert left == owed(scene) == [("t", 2, (3,))]
    decision = scene.live(broker(1), broker(2, 2))
    assert requests_to(decision, 2, StopReplicaRequest) == []
    decision = scene.live(broker(1), broker(2, 2), broker(3, 2))
    assert len(requests_to(decision, 3, StopReplicaRequest)) == 1


def test_an_answer_of_a_live_broker_is_not_lost_when_another_one_is_unregistered() -> None:
    """Its answer was not written yet, for a second live broker still owed one."""
    scene, topic_id = scene_with_topic()
    scene.live(broker(1), broker(3))
    scene.delete("t")
    scene.handle(ReplicasDeleted(1, (topic_id,)))
    assert owed(scene) == [("t", 2, (1, 2, 3))]
    assert unregister(scene, 2) is ErrorCode.NONE

    assert owed(scene) == [("t", 2, (3,))]
    scene.handle(ReplicasDeleted(3, (topic_id,)))
    assert owed(scene) == []


def test_a_broker_that_runs_or_to_which_nothing_is_owed_is_not_unregistered() -> None:
    """A typing error must neither take directories from a live broker nor look like success."""
    scene, _ = scene_with_topic()
    scene.live(broker(1), broker(3))
    scene.delete("t")
    before = owed(scene)

    assert unregister(scene, 3) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert unregister(scene, 7) is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert owed(scene) == before
