"""Elections that are asked for, and leaderships that go back to where they belong."""

from __future__ import annotations

import pytest

from ottla.coordinator.controller.elections import BALANCE_BATCH
from ottla.coordinator.controller.events import (
    AlterMoves,
    BalanceDue,
    BrokerSuspected,
    ConfigRead,
    ControllerDecision,
    ElectLeaders,
    PreferredAsked,
    ShutdownAsked,
)
from ottla.coordinator.controller.specs import ControllerSettings, MoveSpec, TopicSpec
from ottla.coordinator.metadata.image import Entity
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Check, Create
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from tests.coordinator.controller.scene import Scene, broker, partition_errors, requests_to

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LATER_MS = 10_000_000.0


def displaced(count: int = 2, name: str = "t", factor: int = 2) -> Scene:
    """Broker 1 has restarted and is back in sync; its partitions are led by others."""
    scene = Scene(*(broker(node_id) for node_id in range(1, factor + 1)))
    replicas = list(range(1, factor + 1))
    scene.create(TopicSpec(name, assignment={index: replicas for index in range(count)}))
    others = [broker(node_id) for node_id in range(2, factor + 1)]
    scene.live(*others)
    scene.live(broker(1, 2, 1), *others)
    for index in range(count):
        scene.leader_writes(name, index, (*replicas[1:], 1), 1000)
    scene.sent.clear()
    return scene


def elect(scene: Scene, *items: TopicPartition, allow_unclean: bool = False) -> ControllerDecision:
    return scene.handle(ElectLeaders(items, allow_unclean))


@pytest.mark.requirement("CTL-32", "ZKT-09")
def test_preferred_leaders_are_elected_where_they_are_in_sync() -> None:
    """Each partition has its own answer, and others are left alone."""
    scene = displaced(3)
    scene.leader_writes("t", 1, (2,))
    items = (T0, T1, TopicPartition("t", 7), TopicPartition("none", 0))

    assert partition_errors(elect(scene, *items)) == [
        ErrorCode.NONE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert [scene.state("t", index).leader for index in range(3)] == [1, 2, 2]
    assert scene.state("t", 0).isr == (2, 1)
    assert partition_errors(elect(scene, T0)) == [ErrorCode.ELECTION_NOT_NEEDED]
    everything = scene.handle(ElectLeaders(None))
    assert partition_errors(everything) == [
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.NONE,
    ]
    assert scene.state("t", 2).leader == 1


@pytest.mark.requirement("ZKT-09", "CTL-32")
def test_the_preferred_leader_is_the_first_replica_and_not_the_smallest_id() -> None:
    """An operator orders the replicas to say who shall lead."""
    scene = Scene(broker(1), broker(2), broker(3))
    scene.create(TopicSpec("t", assignment={0: [2, 3, 1]}))
    assert scene.state("t", 0).leader == 2
    scene.live(broker(1), broker(3))
    assert scene.state("t", 0).leader == 3
    scene.live(broker(1), broker(2, 2, 1), broker(3))
    scene.leader_writes("t", 0, (3, 1, 2), 1000)

    assert partition_errors(elect(scene, T0)) == [ErrorCode.NONE]
    assert scene.state("t", 0).leader == 2


@pytest.mark.requirement("ZKT-09", "CTL-33")
def test_leaderships_go_back_by_themselves_to_the_first_replica_and_not_the_smallest_id() -> None:
    """A restart displaces them, and no operator is there."""
    scene = Scene(broker(1), broker(2), broker(3))
    scene.create(TopicSpec("t", assignment={0: [2, 3, 1]}))
    scene.live(broker(1), broker(3))
    scene.live(broker(1), broker(2, 2, 1), broker(3))
    scene.leader_writes("t", 0, (3, 1, 2), 1000)
    scene.handle(BalanceDue(), LATER_MS)

    assert scene.state("t", 0).leader == 2


def test_a_partition_named_twice_is_elected_once() -> None:
    """The second write would be refused by the store, and the first with it."""
    scene = displaced()

    assert partition_errors(elect(scene, T0, T0)) == [ErrorCode.NONE] * 2
    assert scene.state("t", 0).leader == 1


def test_brokers_that_stop_or_seem_dead_are_not_elected() -> None:
    """They would be gone as soon as clients have found them."""
    for mark in (ShutdownAsked(1, 2), BrokerSuspected(1, 2)):
        scene = displaced()
        scene.handle(mark)
        assert partition_errors(elect(scene, T0)) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]


@pytest.mark.requirement("CTL-19")
def test_an_operator_can_take_any_replica_that_lives() -> None:
    """KIP-460: records may be lost, which the state says; but not of internal topics (R-25)."""
    scene = Scene(broker(1), broker(2))
    offsets = TopicPartition("__consumer_offsets", 0)
    for name in ("t", offsets.topic):
        scene.create(TopicSpec(name, assignment={0: [1, 2]}))
        scene.leader_writes(name, 0, (1,))
    assert partition_errors(elect(scene, T0, allow_unclean=True)) == [ErrorCode.ELECTION_NOT_NEEDED]
    scene.live(broker(2))
    assert scene.state("t", 0).leader == -1
    decision = elect(scene, T0, offsets, allow_unclean=True)

    assert partition_errors(decision) == [
        ErrorCode.NONE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ]
    state = scene.state("t", 0)
    assert (state.leader, state.isr, state.is_recovering) == (2, (2,), True)
    scene.live()
    assert partition_errors(elect(scene, T0, allow_unclean=True)) == [
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    ]


UNCLEAN = "unclean.leader.election.enable"


@pytest.mark.parametrize(
    ("static", "of_all", "of_controller", "of_topic", "is_allowed"),
    [
        (False, None, None, None, False),
        (True, None, None, None, True),
        (True, "false", None, None, False),
        (False, "true", None, None, True),
        (False, "true", "false", None, False),
        (True, "false", "true", None, True),
        (False, "true", "true", "false", False),
        (True, "false", "false", "true", True),
        (False, "true", None, "rubbish", True),
    ],
)
def test_an_unclean_election_is_allowed_by_the_topic_then_the_brokers_then_the_file(
    static: bool,
    of_all: str | None,
    of_controller: str | None,
    of_topic: str | None,
    is_allowed: bool,
) -> None:
    """What an operator sets while the cluster runs counts, as it would in Kafka; read too weakly it
    loses records, read too strongly it leaves partitions without leader."""
    scene = Scene(
        broker(1),
        broker(2),
        broker(3),
        settings=ControllerSettings(unclean_leader_election_enable=static),
    )
    scene.create(TopicSpec("t", assignment={0: [3, 2]}))
    layers = {
        Entity("brokers", "<default>"): of_all,
        Entity("brokers", "1"): of_controller,
        # Not the controller's.
        Entity("brokers", "2"): None if is_allowed else "true",
        Entity("topics", "t"): of_topic,
    }
    for entity, text in layers.items():
        if text is not None:
            scene.handle(ConfigRead(entity, {UNCLEAN: text}))
    scene.leader_writes("t", 0, (3,))
    scene.live(broker(1), broker(2))

    assert scene.state("t", 0).leader == (2 if is_allowed else -1)


def test_no_setting_allows_an_unclean_election_of_an_internal_topic() -> None:
    """Committed group offsets and outcomes of transactions must never vanish (R-25)."""
    scene = Scene(
        broker(1), broker(2), settings=ControllerSettings(unclean_leader_election_enable=True)
    )
    for name in ("t", "__consumer_offsets"):
        scene.create(TopicSpec(name, assignment={0: [1, 2]}))
        scene.leader_writes(name, 0, (1,))
    scene.live(broker(2))

    assert scene.state("t", 0).leader == 2
    assert scene.state("__consumer_offsets", 0).leader == -1


def test_an_unclean_restart_is_taken_note_of_only_on_the_newest_state() -> None:
    """R-22: the leader may have added the broker's last life to the ISR and not announced it yet.
    Then the write fails, and the state is read again, from which that life is taken out."""
    scene = Scene(broker(1), broker(2))
    scene.create(TopicSpec("t", assignment={0: [1, 2]}))
    scene.leader_writes("t", 0, (1,))
    version = scene.state("t", 0).partition_epoch
    scene.sent.clear()
    scene.live(broker(1), broker(2, 2))

    operations = [
        operation
        for decision in scene.sent
        for write in decision.records
        for operation in write.operations
    ]
    assert Check(paths.state("t", 0), version) in operations


def test_partitions_without_leader_get_one_when_unclean_elections_are_allowed_for_all() -> None:
    """That is what the operator sets it for: nothing else would happen to them before long."""
    scene = Scene(broker(1), broker(2), broker(3))
    scene.create(TopicSpec("t", assignment={0: [3, 2], 1: [3, 2]}))
    for index in range(2):
        scene.leader_writes("t", index, (3,))
    scene.live(broker(1), broker(2))
    throttle = {"follower.replication.throttled.rate": "1"}
    quiet = scene.handle(ConfigRead(Entity("brokers", "<default>"), throttle))
    assert [scene.state("t", index).leader for index in range(2)] == [-1, -1]
    scene.handle(ConfigRead(Entity("brokers", "<default>"), {**throttle, UNCLEAN: "true"}))

    assert quiet.messages == ()
    assert [scene.state("t", index).leader for index in range(2)] == [2, 2]


@pytest.mark.parametrize(
    ("of_all", "of_leader", "of_topic", "eligible"),
    [(None, None, None, ()), ("2", None, None, (3,)), (None, "2", None, ()), ("2", "2", "1", ())],
)
def test_who_stays_eligible_is_decided_by_what_is_set_for_all_brokers(
    of_all: str | None, of_leader: str | None, of_topic: str | None, eligible: tuple[int, ...]
) -> None:
    """KIP-966: with a minimum of two, the replica that left an ISR of one has all committed
    records."""
    scene = Scene(broker(1), broker(2), broker(3))
    scene.create(TopicSpec("t", assignment={0: [2, 3]}))
    layers = [
        ("brokers", "<default>", of_all),
        ("brokers", "2", of_leader),
        ("topics", "t", of_topic),
    ]
    for kind, name, text in layers:
        if text is not None:
            scene.handle(ConfigRead(Entity(kind, name), {"min.insync.replicas": text}))
    scene.live(broker(1), broker(2))

    assert scene.state("t", 0).isr == (2,)
    assert scene.state("t", 0).eligible_leaders == eligible


@pytest.mark.requirement("CTL-05", "ZKT-14", "ZKT-17")
def test_an_election_asked_for_by_a_znode_takes_the_znode_away() -> None:
    """As older tools ask; those that cannot be elected are passed over."""
    scene = displaced()
    asked = (T0, TopicPartition("none", 0))
    scene.apply((Create(paths.PREFERRED_ELECTION, paths.build_partition_list(asked)),))
    scene.handle(PreferredAsked(asked, 0))

    assert [scene.state("t", index).leader for index in range(2)] == [1, 2]
    assert scene.tree.exists(paths.PREFERRED_ELECTION) is None


@pytest.mark.requirement("CTL-33")
def test_leaderships_go_back_in_small_batches() -> None:
    """C-18: all at once, every client would reconnect to a broker that is still warming up."""
    count = 2 * BALANCE_BATCH + 10
    scene = displaced(count)
    moved = []
    while (decision := scene.handle(BalanceDue(), LATER_MS)).records:
        leaders = [scene.state("t", index).leader for index in range(count)]
        moved.append(leaders.count(1))
        assert len(requests_to(decision, 1, LeaderAndIsrRequest)) == 1

    assert moved == [BALANCE_BATCH, 2 * BALANCE_BATCH, count]


def test_a_broker_gets_nothing_back_before_it_has_been_in_sync_for_a_while() -> None:
    """C-18: coming into the ISR here says that it is catching up there."""
    scene = displaced()
    wait_ms = scene.settings.balance_after_in_sync_ms
    scene.leader_writes("t", 1, (2,), 2000)
    scene.leader_writes("t", 1, (2, 1), 3000)

    assert scene.handle(BalanceDue(), 3000 + wait_ms - 1).records == ()
    assert scene.handle(BalanceDue(), 3000 + wait_ms).records != ()
    assert scene.state("t", 0).leader == 1


def test_a_new_controller_waits_as_well() -> None:
    """It does not know since when each replica has been in sync."""
    scene = displaced()
    scene.elect(now_ms=50_000)

    assert scene.handle(BalanceDue(), 51_000).records == ()
    assert scene.handle(BalanceDue(), 90_000).records != ()


def test_a_small_imbalance_is_left_alone() -> None:
    """leader.imbalance.per.broker.percentage: a move costs every client of the partition."""
    scene = displaced(20)
    for index in range(2, 20):
        elect(scene, TopicPartition("t", index))
    assert scene.handle(BalanceDue(), LATER_MS).records == ()
    scene.controller.context.settings = ControllerSettings(leader_imbalance_per_broker_percentage=9)

    assert scene.handle(BalanceDue(), LATER_MS).records != ()
    assert [scene.state("t", index).leader for index in range(3)] == [1, 1, 1]


def test_coordinators_go_back_last() -> None:
    """Their move makes whole groups look for another broker, and read everything again."""
    scene = displaced(BALANCE_BATCH, "zz")
    scene.create(TopicSpec("__consumer_offsets", assignment={0: [1, 2]}))
    scene.live(broker(2))
    scene.live(broker(1, 3, 2), broker(2))
    for index in range(BALANCE_BATCH):
        scene.leader_writes("zz", index, (2, 1), 1000)
    scene.leader_writes("__consumer_offsets", 0, (2, 1), 1000)
    scene.handle(BalanceDue(), LATER_MS)
    assert scene.state("zz", BALANCE_BATCH - 1).leader == 1
    assert scene.state("__consumer_offsets", 0).leader == 2
    scene.handle(BalanceDue(), LATER_MS)

    assert scene.state("__consumer_offsets", 0).leader == 1


def test_partitions_that_are_being_moved_are_not_balanced() -> None:
    """Their preferred leader is one that is still to come; the move elects it itself."""
    scene = displaced(1, factor=3)
    scene.leader_writes("t", 0, (2, 1), 2000)
    scene.handle(AlterMoves((MoveSpec(T0, (1, 3)),)))
    assert scene.state("t", 0).is_moving

    assert scene.handle(BalanceDue(), LATER_MS).records == ()
