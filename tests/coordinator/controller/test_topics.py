"""Making, enlarging and deleting topics through the machine, over a real tree."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ottla.coordinator.controller.events import CreatePartitions, CreateTopics, DeleteTopics
from ottla.coordinator.controller.requests import EPOCH_DURING_DELETE
from ottla.coordinator.controller.specs import (
    ControllerSettings,
    PartitionsSpec,
    TopicDeletion,
    TopicSpec,
)
from ottla.coordinator.controller.writes import OPERATIONS_PER_WRITE_MAX, WriteList
from ottla.coordinator.metadata.changes import LEADER_DURING_DELETE
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Create
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.coordinator.controller.scene import Scene, broker, requests_to, topic_results


def refusals(scene: Scene, *specs: TopicSpec) -> list[ErrorCode]:
    return [result.error_code for result in scene.create(*specs)]


@pytest.mark.requirement("CTL-24")
def test_a_created_topic_is_stored_led_and_announced() -> None:
    """The whole way: znodes first, then the replicas' roles, then where clients should go."""
    scene = Scene(broker(1), broker(2))
    (result,) = scene.create(TopicSpec("t", 2, 2, configs={"retention.ms": "5"}))
    decision = scene.sent[-1]

    assert (result.error_code, result.partition_count, result.replication_factor) == (0, 2, 2)
    assert result.configs == {"retention.ms": "5"}
    assert scene.state("t", 0).isr == (1, 2)
    assert scene.state("t", 1).leader == 2
    settings = json.loads(scene.tree.get("/config/topics/t").data)
    assert settings == {"version": 1, "config": {"retention.ms": "5"}}
    kinds = [type(message.request) for message in decision.messages]
    assert kinds == [LeaderAndIsrRequest] * 2 + [UpdateMetadataRequest] * 2
    (leadership,) = requests_to(decision, 2, LeaderAndIsrRequest)
    assert (leadership.controller_id, leadership.controller_epoch) == (1, scene.epoch)
    assert leadership.broker_epoch == 1
    (topic,) = leadership.topic_states
    assert topic.topic_id == result.topic_id
    roles = [(role.partition_index, role.leader, role.is_new) for role in topic.partition_states]
    assert roles == [(0, 1, True), (1, 2, True)]


def test_defaults_fill_what_is_not_said() -> None:
    """KIP-464: -1 leaves the choice to the cluster."""
    settings = ControllerSettings(num_partitions=3, default_replication_factor=2)
    scene = Scene(broker(1), broker(2), settings=settings)
    (result,) = scene.create(TopicSpec("t"))

    assert (result.partition_count, result.replication_factor) == (3, 2)


def test_bad_topics_are_refused_one_by_one() -> None:
    """One bad topic in a request does not spoil the others, and each gets its own reason."""
    scene = Scene(broker(1))
    scene.create(TopicSpec("a.b"))
    found = refusals(
        scene,
        TopicSpec("a.b"),
        TopicSpec("a_b"),
        TopicSpec("bad name"),
        TopicSpec("t", 0),
        TopicSpec("t", 1, 0),
        TopicSpec("t", 1, 2),
        TopicSpec("t", configs={"wrong": "1"}),
        TopicSpec("t", assignment={1: [1]}),
        TopicSpec("t", assignment={0: [7]}),
        TopicSpec("t", 2**31 - 1),
        TopicSpec("good"),
        TopicSpec("good"),
        TopicSpec("go.od", 1),
        TopicSpec("go_od", 1),
    )

    assert found == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.NONE,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert scene.tree.children("/brokers/topics") == ["a.b", "go.od", "good"]


def test_validation_writes_and_sends_nothing() -> None:
    """A dry run that leaves something behind is not one."""
    scene = Scene(broker(1))
    zxid = scene.tree.last_zxid
    (result,) = scene.create(TopicSpec("t", 2), validate_only=True)

    assert (result.error_code, result.partition_count) == (0, 2)
    assert scene.tree.last_zxid == zxid
    assert scene.sent[-1].messages == ()
    assert refusals(scene, TopicSpec("t")) == [ErrorCode.NONE]


def test_an_assignment_by_hand_is_kept_as_it_is() -> None:
    """Operators place replicas for reasons that no algorithm knows."""
    scene = Scene(broker(1), broker(2))
    (result,) = scene.create(TopicSpec("t", assignment={1: [1, 2], 0: [2, 1]}))

    assert (result.partition_count, result.replication_factor) == (2, 2)
    assert scene.state("t", 0).replicas == (2, 1)
    assert scene.state("t", 1).leader == 1


def test_partitions_are_added_where_they_would_have_been() -> None:
    """Adding partitions one by one gives the spread of making them at once."""
    scene = Scene(*(broker(node_id) for node_id in range(4)))
    scene.create(TopicSpec("other"))
    scene.create(TopicSpec("t", 2, 2), TopicSpec("u", 6, 2))
    decision = scene.handle(
        CreatePartitions(
            (
                PartitionsSpec("t", 6),
                PartitionsSpec("u", 6),
                PartitionsSpec("none", 2),
                PartitionsSpec("other", 3, [[1], [0]]),
                PartitionsSpec("other", 3, [[1]]),
            )
        )
    )

    assert [result.error_code for result in topic_results(decision)] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ]
    image = scene.controller.image
    spread = [image.topics["t"].partitions[index].replicas for index in range(6)]
    assert spread == [(1, 2), (2, 3), (3, 0), (0, 1), (1, 2), (2, 3)]
    assert scene.state("t", 5).leader == 2
    assert scene.state("other", 2).leader == 0
    (leadership,) = requests_to(scene.sent[-1], 0, LeaderAndIsrRequest)
    told = [(topic.topic_name, len(topic.partition_states)) for topic in leadership.topic_states]
    assert told == [("t", 2), ("other", 1)]


def test_a_deleted_topic_leaves_no_trace() -> None:
    """Replicas are deleted before brokers forget the topic; the store forgets everything."""
    scene = Scene(broker(1), broker(2))
    scene.create(TopicSpec("t", 2, 1, configs={"retention.ms": "5"}))
    before = [path for path, _ in scene.tree.walk() if "/t" in path.removeprefix("/brokers/topics")]
    decision = scene.delete("t")

    assert before
    left = [path for path, _ in scene.tree.walk() if path.endswith("/t") or "/t/" in path]
    assert left == []
    assert scene.controller.image.topics == {}
    (stop,) = requests_to(decision, 1, StopReplicaRequest)
    (partition,) = stop.topic_states[0].partition_states
    assert partition.delete_partition
    assert partition.leader_epoch == EPOCH_DURING_DELETE
    (update,) = requests_to(decision, 1, UpdateMetadataRequest)
    leaders = [state.leader for state in update.topic_states[0].partition_states]
    assert leaders == [LEADER_DURING_DELETE] * 2
    kinds = [type(message.request) for message in decision.messages]
    assert kinds == [StopReplicaRequest] * 2 + [UpdateMetadataRequest] * 2


def test_a_topic_made_again_is_another_one() -> None:
    """C-22: same name, new id, epochs from the start."""
    scene = Scene(broker(1))
    (first,) = scene.create(TopicSpec("t"))
    scene.delete("t")
    (second,) = scene.create(TopicSpec("t"))

    assert first.topic_id != second.topic_id
    assert scene.state("t", 0).leader_epoch == 0


@pytest.mark.requirement("CTL-26")
def test_deletion_can_be_forbidden() -> None:
    """A cluster may prefer to keep everything; the wish stays recorded."""
    scene = Scene(broker(1), settings=ControllerSettings(delete_topic_enable=False))
    scene.create(TopicSpec("t"))
    scene.apply((Create(paths.delete_topic("t")),))
    reply = topic_results(scene.delete("t"))

    assert reply[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert "t" in scene.controller.image.topics
    assert scene.tree.exists(paths.delete_topic("t")) is not None


@pytest.mark.requirement("CTL-14", "ZKT-16", "ZKT-17")
def test_a_deletion_asked_for_by_a_znode_removes_that_znode() -> None:
    """Tools ask this way; a znode that stayed would delete the next topic of that name."""
    scene = Scene(broker(1))
    scene.create(TopicSpec("t"))
    scene.apply((Create(paths.delete_topic("t")), Create(paths.delete_topic("none"))))
    scene.elect()
    assert refusals(scene, TopicSpec("none")) == [ErrorCode.TOPIC_ALREADY_EXISTS]
    for name in ("t", "none"):
        paths_of = scene.subtree(name)
        scene.handle(DeleteTopics((TopicDeletion(name, paths_of, is_marked=True),)))

    assert scene.tree.children(paths.DELETE_TOPICS) == []
    assert refusals(scene, TopicSpec("t"), TopicSpec("none")) == [ErrorCode.NONE] * 2


def test_a_deletion_of_another_topic_of_that_name_is_refused() -> None:
    """C-22: a retried deletion by id must not hit the topic that was made since."""
    scene = Scene(broker(1))
    (result,) = scene.create(TopicSpec("t"))
    other = bytes(15) + b"\7"
    deletions = [TopicDeletion("t", scene.subtree("t"), topic_id) for topic_id in (other,)]
    reply = topic_results(scene.handle(DeleteTopics(tuple(deletions))))

    assert reply[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert scene.controller.image.topics["t"].topic_id == result.topic_id


def test_a_controller_that_dies_in_a_long_deletion_is_succeeded() -> None:
    """C-23: a topic of many partitions goes in several writes; the rest must go as well."""
    scene = Scene(broker(1))
    scene.create(TopicSpec("t", OPERATIONS_PER_WRITE_MAX))
    event = DeleteTopics((TopicDeletion("t", scene.subtree("t")),))
    decision = scene.controller.handle(event, 0)
    scene.carry_out(replace(decision, records=decision.records[:2], messages=()))
    assert len(decision.records) > 2
    scene.elect()

    assert "t" in scene.controller.deleting
    scene.delete("t")
    assert scene.tree.children(paths.TOPICS) == []
    assert scene.tree.children(paths.DELETE_TOPICS) == []
    assert scene.controller.deleting == frozenset()


def test_a_controller_that_dies_in_a_long_creation_is_succeeded() -> None:
    """Every prefix of the writes is something that the next controller can finish."""
    scene = Scene(broker(1))
    count = OPERATIONS_PER_WRITE_MAX
    spec = TopicSpec("t", count)
    decision = scene.controller.handle(CreateTopics((replace(spec, topic_id=b"@" * 16),)), 0)
    assert len(decision.records) > 1
    scene.carry_out(replace(decision, records=decision.records[:1], messages=()))
    made = {int(name) for name in scene.tree.children(paths.partitions("t"))}
    for index in set(range(count)) - made:
        scene.apply((Create(paths.partition("t", index)),))
    scene.elect()

    states = scene.controller.image.topics["t"].partitions
    assert all(states[index].leader == 1 for index in range(count))
    assert scene.state("t", count - 1).leader == 1


def test_a_topic_is_deleted_and_made_again_while_one_of_its_brokers_is_dead() -> None:
    """C-22, C-23: deletion waits for no broker; the dead broker's old replica is recognised by its
    id."""
    scene = Scene(broker(1), broker(2))
    (first,) = scene.create(TopicSpec("t", assignment={0: [1, 2]}))
    scene.live(broker(1))
    decision = scene.delete("t")
    assert scene.tree.exists(paths.topic("t")) is None
    assert {message.node_id for message in decision.messages} == {1}
    (second,) = scene.create(TopicSpec("t", assignment={0: [1]}))
    decision = scene.live(broker(1), broker(2, 2))

    assert second.topic_id != first.topic_id
    (leadership,) = requests_to(decision, 2, LeaderAndIsrRequest)
    assert leadership.topic_states == []
    assert scene.state("t", 0).replicas == (1,)


def test_what_does_not_fit_into_the_store_is_refused_and_not_attempted() -> None:
    """C-16: a znode of a megabyte ends the session, again and again."""
    settings = ControllerSettings(replicas_per_broker_max=10**9)
    scene = Scene(*(broker(1000 + node_id) for node_id in range(6)), settings=settings)
    zxid = scene.tree.last_zxid
    assert refusals(scene, TopicSpec("t", 40_000, 3)) == [ErrorCode.POLICY_VIOLATION]
    assert scene.tree.last_zxid == zxid
    (made,) = scene.create(TopicSpec("t", 10, 3))
    assert made.error_code == ErrorCode.NONE
    decision = scene.handle(CreatePartitions((PartitionsSpec("t", 40_000),)))

    assert [one.error_code for one in topic_results(decision)] == [ErrorCode.POLICY_VIOLATION]


def test_groups_of_writes_stay_below_what_the_store_takes() -> None:
    """C-16: by number of operations, and by their size."""
    writes = WriteList()
    for index in range(100):
        writes.add([Create(f"/{index}", bytes(20_000))])
    groups = writes.finish()

    assert sum(len(group.operations) for group in groups) == 100
    for group in groups:
        assert sum(len(one.data) for one in group.operations if isinstance(one, Create)) < 900_000


def test_a_recorded_wish_that_is_forbidden_changes_nothing_else() -> None:
    """CTL-26: the topic is served as ever, failovers and all."""
    scene = Scene(broker(1), broker(2), settings=ControllerSettings(delete_topic_enable=False))
    scene.create(TopicSpec("t", assignment={0: [1, 2]}))
    scene.apply((Create(paths.delete_topic("t")),))
    scene.elect()
    scene.live(broker(2))

    assert scene.state("t", 0).leader == 2
