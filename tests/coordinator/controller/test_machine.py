"""The controller machine: elections, brokers that come and go, and what others write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.coordinator.controller.events import (
    ConfigRead,
    DirectoryFailed,
    ReplicasAwaited,
    ReplicasBack,
    ReplicasFailed,
    StatesRead,
    TopicsRead,
)
from ottla.coordinator.controller.specs import ControllerSettings, TopicSpec
from ottla.coordinator.controller.writes import payload_of
from ottla.coordinator.metadata.changes import FULL_UPDATE, LEADER_DURING_DELETE
from ottla.coordinator.metadata.image import NO_LEADER, Entity, PartitionState, TopicImage
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Create, Replace
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.coordinator.controller.scene import Scene, broker, requests_to

T0 = TopicPartition("t", 0)
MIN_TWO = ControllerSettings(min_insync_replicas=2)


def three(settings: ControllerSettings | None = None) -> Scene:
    """Three brokers and a topic of three replicas, led by broker 1."""
    scene = Scene(broker(1), broker(2), broker(3), settings=settings)
    scene.create(TopicSpec("t", 1, 3))
    return scene


@pytest.mark.requirement("CTL-12")
def test_a_controller_begins_by_telling_all_brokers_everything() -> None:
    """A broker that missed a change while there was no controller must catch up (C-13, C-21)."""
    scene = three()
    scene.elect()
    decision = scene.sent[-1]

    for node_id in (1, 2, 3):
        first, last = requests_to(decision, node_id, UpdateMetadataRequest)
        (leadership,) = requests_to(decision, node_id, LeaderAndIsrRequest)
        assert [listed.id for listed in first.live_brokers] == [1, 2, 3]
        assert first.topic_states == []
        assert (last.type, leadership.type) == (FULL_UPDATE, FULL_UPDATE)
        assert [topic.topic_name for topic in leadership.topic_states] == ["t"]
        assert leadership.controller_epoch == scene.epoch


def test_a_failover_without_restarts_changes_no_leader() -> None:
    """Only the controller died; an epoch bump everywhere would stop all fetches for nothing."""
    scene = three()
    before = scene.state("t", 0)
    scene.elect()

    assert scene.state("t", 0) == before
    assert scene.sent[-1].records == ()


@pytest.mark.parametrize("clean_stop_epoch", [-1, 1])
def test_the_leader_epoch_grows_at_every_start_of_a_single_broker(clean_stop_epoch: int) -> None:
    """R-23: what the earlier life told its clients must be fenced in the next one."""
    scene = Scene(broker(1))
    scene.create(TopicSpec("t"))
    scene.elect(broker(1, 2, clean_stop_epoch))
    state = scene.state("t", 0)

    assert (state.leader, state.isr, state.leader_epoch) == (1, (1,), 1)
    assert scene.tree.get(paths.seen_generation(1)).data == b"2"
    scene.elect(broker(1, 3, 2))
    assert scene.state("t", 0).leader_epoch == 2


@pytest.mark.requirement("CTL-16", "CTL-21", "CTL-22")
def test_the_death_of_a_broker_moves_its_leaderships() -> None:
    """The partitions with a replica there, and no others."""
    scene = three()
    scene.create(TopicSpec("u", assignment={0: [3, 2]}))
    decision = scene.live(broker(2), broker(3))

    state = scene.state("t", 0)
    assert (state.leader, state.isr, state.leader_epoch) == (2, (2, 3), 1)
    assert scene.state("u", 0).leader_epoch == 0
    assert {message.node_id for message in decision.messages} == {2, 3}
    (leadership,) = requests_to(decision, 3, LeaderAndIsrRequest)
    assert [topic.topic_name for topic in leadership.topic_states] == ["t"]
    (update,) = requests_to(decision, 3, UpdateMetadataRequest)
    assert update.topic_states[0].partition_states[0].offline_replicas == [1]


@pytest.mark.requirement("CTL-27", "CTL-29")
def test_a_broker_that_comes_back_is_told_everything_and_leads_again() -> None:
    """Offline partitions whose replica returned come online."""
    scene = Scene(broker(1), broker(2))
    scene.create(TopicSpec("t", assignment={0: [1]}))
    scene.live(broker(2))
    assert scene.state("t", 0).leader == NO_LEADER
    decision = scene.live(broker(1, 2), broker(2))

    assert scene.state("t", 0).leader == 1
    assert len(requests_to(decision, 1, UpdateMetadataRequest)) == 2
    (leadership,) = requests_to(decision, 1, LeaderAndIsrRequest)
    assert leadership.broker_epoch == 2
    (update,) = requests_to(decision, 2, UpdateMetadataRequest)
    assert update.topic_states[0].partition_states[0].leader == 1


def test_an_unseen_restart_is_a_failure_and_a_start() -> None:
    """R-23: the list of ids is the same, the generation is not."""
    scene = three()
    decision = scene.live(broker(1, 2), broker(2), broker(3))
    state = scene.state("t", 0)

    assert (state.leader, state.isr) == (2, (2, 3))
    assert len(requests_to(decision, 1, LeaderAndIsrRequest)) == 1
    assert scene.live(broker(1, 2), broker(2), broker(3)).messages == ()


def test_a_restart_is_not_forgotten_when_the_controller_dies_with_it() -> None:
    """R-23: the next controller compares with what was acted upon, not with what it happens to
    find first."""
    scene = three()
    scene.elect(broker(1, 2), broker(2), broker(3))

    assert scene.state("t", 0).leader == 2
    scene.elect()
    assert scene.state("t", 0).leader_epoch == 1


def test_the_last_replica_standing_does_not_win_with_a_lost_tail() -> None:
    """R-21: 1 and 2 left below the minimum and have everything; 3 was killed and lost its end."""
    scene = three(MIN_TWO)
    scene.live(broker(3))
    assert scene.state("t", 0).isr == (3,)
    assert scene.state("t", 0).eligible_leaders == (1, 2)
    scene.live()
    scene.live(broker(3, 2))
    assert scene.state("t", 0).leader == NO_LEADER
    scene.live(broker(3, 2), broker(2, 2, 1))

    state = scene.state("t", 0)
    assert (state.leader, state.isr) == (2, (2,))


def test_unclean_elections_follow_the_topics_setting_but_never_for_internal_topics() -> None:
    """R-25: group offsets and transaction outcomes are not for sale."""
    scene = Scene(broker(1), broker(2))
    for name in ("t", "__consumer_offsets"):
        scene.create(TopicSpec(name, assignment={0: [1, 2]}))
        state = scene.state(name, 0)
        shrunk = replace(state, isr=(1,), partition_epoch=state.partition_epoch + 1)
        scene.apply((Replace(paths.state(name, 0), paths.build_state(payload_of(shrunk))),))
        scene.handle(StatesRead({TopicPartition(name, 0): shrunk}))
    scene.live(broker(2))
    assert scene.state("t", 0).leader == NO_LEADER
    allowed = {"unclean.leader.election.enable": "true"}
    for name in ("t", "__consumer_offsets"):
        scene.handle(ConfigRead(Entity("topics", name), allowed))

    assert scene.state("t", 0).leader == 2
    assert scene.state("t", 0).is_recovering
    assert scene.state("__consumer_offsets", 0).leader == NO_LEADER


def test_an_isr_that_a_leader_changed_is_passed_on() -> None:
    """The leader writes it; clients and other brokers hear it from the controller."""
    scene = three()
    shrunk = replace(scene.state("t", 0), isr=(1, 2), partition_epoch=1)
    scene.apply((Replace(paths.state("t", 0), paths.build_state(payload_of(shrunk))),))
    decision = scene.handle(StatesRead({T0: shrunk}))

    assert scene.state("t", 0).isr == (1, 2)
    kinds = {type(message.request) for message in decision.messages}
    assert kinds == {UpdateMetadataRequest}
    stale = replace(shrunk, isr=(1,), partition_epoch=0)
    assert scene.handle(StatesRead({T0: stale})).messages == ()
    assert scene.state("t", 0).isr == (1, 2)


@pytest.mark.requirement("CTL-06", "CTL-23")
def test_a_topic_that_a_tool_wrote_is_led() -> None:
    """Kafka's own tools write the assignment and leave the rest to the controller."""
    scene = Scene(broker(1), broker(2))
    topic = TopicImage("t", b"@" * 16, {0: PartitionState((2, 1)), 1: PartitionState((7,))})
    payload = paths.TopicPayload(None, {0: (2, 1), 1: (7,)})
    directories = [paths.partitions("t"), paths.partition("t", 0), paths.partition("t", 1)]
    scene.apply((Create(paths.topic("t"), paths.build_topic(payload)),))
    scene.apply(tuple(Create(path) for path in directories))
    decision = scene.handle(TopicsRead(frozenset({"t"}), (topic,), frozenset({"t"})))

    assert scene.state("t", 0).leader == 2
    assert scene.read_topic("t").topic_id == b"@" * 16
    assert not scene.state("t", 1).has_state
    (leadership,) = requests_to(decision, 1, LeaderAndIsrRequest)
    assert leadership.topic_states[0].partition_states[0].is_new
    again = scene.handle(TopicsRead(frozenset({"t"}), (scene.read_topic("t"),)))
    assert (again.records, again.messages) == ((), ())


def test_a_topic_whose_znode_is_gone_is_gone() -> None:
    """An operator removed it by hand; brokers must not serve a topic that the store lacks."""
    scene = Scene(broker(1))
    scene.create(TopicSpec("t"))
    decision = scene.handle(TopicsRead(frozenset(), ()))

    assert scene.controller.image.topics == {}
    assert len(requests_to(decision, 1, StopReplicaRequest)) == 1
    (update,) = requests_to(decision, 1, UpdateMetadataRequest)
    assert update.topic_states[0].partition_states[0].leader == LEADER_DURING_DELETE


def test_a_failed_disk_moves_the_leaderships_it_held() -> None:
    """KIP-112: the broker lives, this replica does not."""
    scene = three()
    decision = scene.handle(ReplicasFailed(1, (T0, TopicPartition("none", 0))))

    assert scene.state("t", 0).leader == 2
    assert scene.state("t", 0).isr == (2, 3)
    (update,) = requests_to(decision, 1, UpdateMetadataRequest)
    assert update.topic_states[0].partition_states[0].offline_replicas == [1]
    scene.live(broker(1, 2), broker(2), broker(3))
    scene.live(broker(1, 2))
    assert scene.state("t", 0).leader == NO_LEADER
    scene.live(broker(1, 2), broker(2, 2, 1), broker(3, 2, 1))
    assert scene.state("t", 0).leader == 2


def test_the_only_replica_on_a_failed_disk_is_offline() -> None:
    """Nothing else can serve it; the ISR remembers who has the data."""
    scene = Scene(broker(1))
    scene.create(TopicSpec("t"))
    scene.handle(ReplicasFailed(1, (T0,)))
    assert scene.state("t", 0).leader == NO_LEADER
    assert scene.state("t", 0).isr == (1,)

    scene.live(broker(1, 2))
    assert scene.state("t", 0).leader == 1


def test_a_replica_that_came_back_leads_again_if_no_other_can() -> None:
    """A full disk refuses a new topic; once it has room, no restart should be necessary."""
    scene = Scene(broker(1))
    scene.create(TopicSpec("t"))
    scene.handle(ReplicasFailed(1, (T0,)))
    asked = scene.handle(ReplicasAwaited(1))
    before = scene.state("t", 0)
    decision = scene.handle(ReplicasBack(1, (T0, TopicPartition("none", 0))))

    (question,) = requests_to(asked, 1, LeaderAndIsrRequest)
    assert question.topic_states[0].partition_states[0].leader == NO_LEADER
    assert len(asked.messages) == 1
    assert scene.state("t", 0).leader == 1
    assert scene.state("t", 0).leader_epoch == before.leader_epoch + 1
    (update,) = requests_to(decision, 1, UpdateMetadataRequest)
    assert update.topic_states[0].partition_states[0].offline_replicas == []
    assert scene.handle(ReplicasBack(1, (T0,))).messages == ()
    assert scene.handle(ReplicasAwaited(1)).messages == ()


def test_after_a_directory_failed_the_broker_is_asked_about_all_it_holds() -> None:
    """KIP-112: the announcement does not say what was lost; what is known is not asked again."""
    scene = three()
    scene.create(TopicSpec("u", partition_count=1, replication_factor=1))
    scene.handle(ReplicasFailed(1, (T0,)))
    decision = scene.handle(DirectoryFailed(1))

    held = [
        (topic.topic_name, state.partition_index)
        for request in requests_to(decision, 1, LeaderAndIsrRequest)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    on_first = [
        (name, index)
        for name, topic in scene.controller.image.topics.items()
        for index, state in topic.partitions.items()
        if 1 in state.replicas and (name, index) != ("t", 0)
    ]
    assert sorted(held) == sorted(on_first)
    assert {message.node_id for message in decision.messages} <= {1}
    assert scene.handle(DirectoryFailed(9)).messages == ()
