"""Brokers that are about to stop, and brokers that seem to be dead: relieved, and given nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.coordinator.controller.events import (
    BrokerAnswers,
    BrokerSuspected,
    ControllerDecision,
    ShutdownAsked,
)
from ottla.coordinator.controller.leadership import Circumstances, settle
from ottla.coordinator.controller.specs import ControllerSettings, ShutdownResult, TopicSpec
from ottla.coordinator.metadata.image import NO_LEADER, PartitionState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from tests.coordinator.controller.scene import Scene, broker, requests_to


def three(settings: ControllerSettings | None = None) -> Scene:
    """Three brokers; a topic of three partitions, each led by another one, and one that only
    broker 1 has."""
    scene = Scene(broker(1), broker(2), broker(3), settings=settings)
    scene.create(TopicSpec("t", assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}))
    scene.create(TopicSpec("u", assignment={0: [1]}))
    return scene


def answer(decision: ControllerDecision) -> ShutdownResult:
    assert isinstance(decision.reply, ShutdownResult)
    return decision.reply


def test_a_broker_that_stops_is_relieved_of_everything_in_one_batch() -> None:
    """Partition by partition, a shutdown of thousands takes minutes (C-14, C-19)."""
    scene = three()
    decision = scene.handle(ShutdownAsked(1, 1))

    assert answer(decision) == ShutdownResult(ErrorCode.NONE)
    assert len(decision.records) == 1
    leaders = [scene.state("t", index).leader for index in range(3)]
    assert leaders == [2, 2, 3]
    assert [set(scene.state("t", index).isr) for index in range(3)] == [{2, 3}] * 3
    for node_id in (1, 2, 3):
        assert len(requests_to(decision, node_id, LeaderAndIsrRequest)) == 1
    (stop,) = requests_to(decision, 1, StopReplicaRequest)
    (topic,) = stop.topic_states
    told = {
        one.partition_index: (one.leader_epoch, one.delete_partition)
        for one in topic.partition_states
    }
    assert told == dict.fromkeys(range(3), (1, False))


def test_what_no_other_replica_has_stays_until_the_end() -> None:
    """Without others there is nothing to move; serving to the last moment is all that is left."""
    scene = three()
    scene.leader_writes("t", 0, (1,))
    decision = scene.handle(ShutdownAsked(1, 1))

    assert answer(decision).remaining == (TopicPartition("t", 0),)
    assert (scene.state("t", 0).leader, scene.state("t", 0).leader_epoch) == (1, 0)
    assert (scene.state("u", 0).leader, scene.state("u", 0).leader_epoch) == (1, 0)
    (stop,) = requests_to(decision, 1, StopReplicaRequest)
    assert [one.partition_index for one in stop.topic_states[0].partition_states] == [1, 2]


def test_a_broker_that_stops_gets_nothing_until_it_is_back() -> None:
    """R-24: given a leadership now, it would be gone with it in a moment."""
    scene = three()
    scene.handle(ShutdownAsked(1, 1))
    scene.leader_writes("t", 1, (2, 3, 1))
    assert scene.state("t", 1).isr == (2, 3)
    scene.leader_writes("t", 1, (2,))
    scene.live(broker(1), broker(3))
    assert scene.state("t", 1).leader == NO_LEADER
    scene.create(TopicSpec("v", 1, 1), TopicSpec("w", 1, 2))
    assert scene.state("v", 0).replicas == (3,)
    assert scene.state("w", 0).isr == (3,)
    scene.live(broker(1, 2, 1), broker(2, 2, 1), broker(3))

    assert scene.state("t", 1).leader == 2
    scene.leader_writes("t", 1, (2, 1))
    assert scene.state("t", 1).isr == (2, 1)


def test_a_shutdown_asked_for_before_a_restart_is_refused() -> None:
    """C-09, C-14: repeated after the bounce, it would take everything from the new life."""
    scene = three()
    scene.live(broker(1, 2, 1), broker(2), broker(3))
    before = [scene.state("t", index) for index in range(3)]

    assert answer(scene.handle(ShutdownAsked(1, 1))).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert answer(scene.handle(ShutdownAsked(9, 1))).error_code == ErrorCode.BROKER_NOT_AVAILABLE
    assert [scene.state("t", index) for index in range(3)] == before
    assert answer(scene.handle(ShutdownAsked(2, -1))).error_code == ErrorCode.NONE


def test_a_shutdown_elects_no_replica_that_is_not_in_sync() -> None:
    """R-25: the leader lives and has everything; availability is no reason to lose records yet."""
    scene = three(ControllerSettings(unclean_leader_election_enable=True))
    scene.leader_writes("t", 0, (1,))
    scene.handle(ShutdownAsked(1, 1))
    assert scene.state("t", 0).leader == 1
    scene.live(broker(2), broker(3))

    assert scene.state("t", 0).leader == 2
    assert scene.state("t", 0).is_recovering


def test_a_suspected_broker_is_replaced_at_once_where_others_are_in_sync() -> None:
    """Its session expires after many seconds; clients do not need to wait that long."""
    scene = three()
    decision = scene.handle(BrokerSuspected(1, 1))

    assert [scene.state("t", index).leader for index in range(3)] == [2, 2, 3]
    assert all(1 not in scene.state("t", index).isr for index in range(3))
    assert scene.state("u", 0).leader == 1
    assert requests_to(decision, 1, StopReplicaRequest) == []
    assert scene.handle(BrokerSuspected(2, 9)).records == ()
    assert scene.handle(BrokerSuspected(7, 1)).records == ()


def test_a_suspicion_ends_with_an_answer_or_with_another_life() -> None:
    """It may have been a connection only; then the broker is as good as any other."""
    scene = three()
    scene.handle(BrokerSuspected(1, 1))
    scene.live(broker(1), broker(3))
    scene.leader_writes("t", 2, (3, 1))
    assert scene.state("t", 2).isr == (3,)
    scene.handle(BrokerAnswers(1))
    scene.leader_writes("t", 2, (3, 1))
    assert scene.state("t", 2).isr == (3, 1)

    scene.handle(BrokerSuspected(3, 1))
    assert scene.state("t", 2).leader == 1
    scene.live(broker(1), broker(3, 2, 1))
    scene.leader_writes("t", 2, (1, 3))
    assert scene.state("t", 2).isr == (1, 3)
    assert scene.handle(BrokerAnswers(3)).records == ()


def test_a_suspected_broker_that_answers_gets_what_no_other_could_lead() -> None:
    """A topic that was assigned to this broker alone has no other replica and is not forgotten."""
    scene = three()
    scene.handle(BrokerSuspected(1, 1))
    scene.create(TopicSpec("v", assignment={0: [1]}))
    assert not scene.state("v", 0).has_state
    decision = scene.handle(BrokerAnswers(1))

    assert (scene.state("v", 0).leader, scene.state("v", 0).isr) == (1, (1,))
    (leadership,) = requests_to(decision, 1, LeaderAndIsrRequest)
    assert [topic.topic_name for topic in leadership.topic_states] == ["v"]


def test_the_last_of_an_isr_keeps_its_leadership_while_it_seems_dead() -> None:
    """Without a successor, taking the leadership away helps no client."""
    scene = three()
    scene.leader_writes("t", 0, (1,))
    scene.handle(BrokerSuspected(1, 1))

    assert scene.state("t", 0).leader == 1
    scene.live(broker(2), broker(3))
    assert scene.state("t", 0).leader == NO_LEADER


def test_no_replica_outside_the_isr_is_elected_while_a_member_only_seems_dead() -> None:
    """R-25: it may answer in a moment, with everything that was committed."""
    state = PartitionState((1, 2, 3), leader=2, isr=(2, 1), partition_epoch=0)
    now = Circumstances(frozenset({1, 3}), away=frozenset({1}), allow_unclean_election=True)

    settled = settle(state, now)
    assert (settled.leader, settled.isr) == (NO_LEADER, (1,))
    assert settle(settled, replace(now, away=frozenset())).leader == 1
    assert settle(settled, replace(now, live=frozenset({3}))).leader == 3


@pytest.mark.parametrize("mark", [ShutdownAsked(1, 1), BrokerSuspected(1, 1)])
def test_another_controller_knows_nothing_of_it_and_is_told_again(
    mark: ShutdownAsked | BrokerSuspected,
) -> None:
    """It is not written down: the broker asks again, or is found dead again."""
    scene = three()
    scene.handle(mark)
    scene.elect()
    scene.leader_writes("t", 2, (3, 2, 1))
    assert scene.state("t", 2).isr == (3, 2, 1)
    scene.handle(mark)

    assert scene.state("t", 2).isr == (3, 2)
