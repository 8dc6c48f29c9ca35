"""Full disks: who leads instead, who leaves the ISR, and what comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.controller.events import BalanceDue, ElectLeaders, RoomRead
from ottla.coordinator.controller.leadership import Circumstances, settle
from ottla.coordinator.controller.specs import TopicSpec
from ottla.coordinator.metadata.image import PartitionState
from ottla.coordinator.store.full_disks import Room, RoomReport, build, parse, report_on
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from tests.coordinator.controller.scene import Scene, broker, partition_errors

PARTITION = TopicPartition("t", 0)
LOW, STUCK = RoomReport(Room.LOW), RoomReport(Room.NONE)


def now(*live: int, low: str = "", stuck: str = "", minimum: int = 1) -> Circumstances:
    """Brokers by their digits; those that are stuck are low as well."""
    return Circumstances(
        frozenset(live),
        low=frozenset(map(int, low + stuck)),
        stuck=frozenset(map(int, stuck)),
        min_insync_replicas=minimum,
        controller_epoch=9,
    )


def partition(leader: int, *isr: int) -> PartitionState:
    return PartitionState((1, 2, 3), leader, 5, isr, 7)


@pytest.mark.parametrize(
    ("state", "circumstances", "leader", "isr"),
    [
        # Below the floor it goes on replicating: it gives the leadership away and stays in sync.
        (partition(1, 1, 2, 3), now(1, 2, 3, low="1"), 2, (1, 2, 3)),
        (partition(1, 1, 2, 3), now(1, 2, 3, low="12"), 3, (1, 2, 3)),
        # What can append nothing is not waited for, whether it leads or follows.
        (partition(1, 1, 2, 3), now(1, 2, 3, stuck="1"), 2, (2, 3)),
        (partition(1, 1, 2, 3), now(1, 2, 3, stuck="3"), 1, (1, 2)),
        (partition(1, 1, 2, 3), now(1, 2, 3, low="1", stuck="2"), 3, (1, 3)),
        # No in-sync replica has room: the leader stays, and no replica outside the ISR leads.
        (partition(1, 1, 2, 3), now(1, 2, 3, low="123"), 1, (1, 2, 3)),
        (partition(1, 1, 2), now(1, 2, 3, low="2", stuck="1"), 1, (1, 2)),
        (partition(1, 1), now(1, 2, 3, stuck="1"), 1, (1,)),
        # A dead leader's place goes to a member with room, else to one without.
        (partition(1, 1, 2, 3), now(2, 3, low="2"), 3, (2, 3)),
        (partition(1, 1, 2), now(2, 3, low="2"), 2, (2,)),
    ],
)
def test_members_of_the_isr_with_room_lead(
    state: PartitionState, circumstances: Circumstances, leader: int, isr: tuple[int, ...]
) -> None:
    """No rule about room may lose a record: only the ISR is asked."""
    settled = settle(state, circumstances)

    assert (settled.leader, settled.isr) == (leader, isr)
    assert settle(settled, circumstances) is settled


def test_who_leaves_below_the_minimum_stays_eligible() -> None:
    """KIP-966: it has all that was committed, for nothing is committed without it."""
    settled = settle(partition(1, 1, 2), now(1, 2, 3, stuck="2", minimum=2))

    assert (settled.isr, settled.eligible_leaders) == ((1,), (2,))


NODES = st.frozensets(st.sampled_from((1, 2, 3)))


@given(isr=st.permutations((1, 2, 3)), count=st.integers(1, 3), low=NODES, stuck=NODES)
def test_whatever_is_full_the_leader_is_one_of_the_isr_and_the_state_is_at_rest(
    isr: list[int], count: int, low: frozenset[int], stuck: frozenset[int]
) -> None:
    """And the ISR only shrinks, to no fewer than one with room."""
    members = tuple(isr[:count])
    state = partition(members[0], *members)
    circumstances = replace(now(1, 2, 3), low=low | stuck, stuck=stuck)
    settled = settle(state, circumstances)

    assert settled.leader in settled.isr
    assert set(settled.isr) <= set(members)
    assert settle(settled, circumstances) is settled
    if set(members) - low - stuck:
        assert settled.leader not in low | stuck
        assert stuck.isdisjoint(settled.isr)


def scene_with_topic() -> Scene:
    scene = Scene(broker(1), broker(2), broker(3))
    scene.create(TopicSpec("t", assignment={0: [1, 2, 3], 1: [1, 2, 3]}))
    return scene


def test_leaderships_go_when_a_broker_reports_a_full_disk_and_not_back_at_once() -> None:
    """Giving them back is for the balance of leaders, once all is well."""
    scene = scene_with_topic()
    decision = scene.handle(RoomRead({1: LOW}))
    assert {message.node_id for message in decision.messages} == {1, 2, 3}
    assert [scene.state("t", index).leader for index in (0, 1)] == [2, 2]
    assert scene.handle(RoomRead({1: LOW})).records == ()
    assert scene.handle(RoomRead({})).records == ()
    assert scene.state("t", 0).leader == 2

    assert partition_errors(scene.handle(ElectLeaders((PARTITION,)))) == [ErrorCode.NONE]
    assert scene.state("t", 0).leader == 1


def owes(scene: Scene) -> bool:
    """Whether a balance is due before its usual time."""
    return scene.controller.owes_leaderships


def test_leaderships_come_back_soon_after_there_is_room_again() -> None:
    """However few they are: the limit of imbalance is for what others have taken for good."""
    scene = Scene(broker(1), broker(2), broker(3))
    assignment = {index: [1, 2, 3] for index in range(20)}
    scene.create(TopicSpec("t", assignment=assignment))
    scene.handle(RoomRead({1: RoomReport(Room.ENOUGH, {PARTITION: Room.NONE})}), 100_000)
    assert (scene.state("t", 0).leader, scene.state("t", 0).isr) == (2, (2, 3))
    assert not owes(scene)
    scene.handle(RoomRead({}), 200_000)
    assert owes(scene)

    # It has not caught up yet.
    assert scene.handle(BalanceDue(), 201_000).records == ()
    assert owes(scene)
    scene.leader_writes("t", 0, (2, 3, 1), 210_000)
    assert scene.handle(BalanceDue(), 211_000).records == ()
    assert scene.handle(BalanceDue(), 241_000).records != ()
    assert scene.state("t", 0).leader == 1
    assert scene.handle(BalanceDue(), 242_000).records == ()
    assert not owes(scene)


ROOM_AGAIN = RoomReport()


@pytest.mark.parametrize("changes_at_ms", [199_000, 201_000, 229_000])
def test_the_next_controller_gives_leaderships_back_as_well(changes_at_ms: int) -> None:
    """Whether it begins while the disk is full, or reads only that there is room again: the regular
    balance leaves few leaderships where they are."""
    scene = Scene(broker(1), broker(2), broker(3))
    scene.create(TopicSpec("t", assignment={index: [1, 2, 3] for index in range(20)}))
    scene.handle(RoomRead({1: RoomReport(Room.ENOUGH, {PARTITION: Room.LOW})}), 100_000)
    assert scene.state("t", 0).leader == 2
    for now_ms in (200_000, 230_000):
        if 0 <= now_ms - changes_at_ms < 30_000:
            scene.elect(now_ms=changes_at_ms)
        scene.handle(RoomRead({1: ROOM_AGAIN}), now_ms)
    assert owes(scene)

    assert scene.handle(BalanceDue(), 261_000).records != ()
    assert scene.state("t", 0).leader == 1
    assert scene.handle(BalanceDue(), 262_000).records == ()
    # The report still stands, and is read again; nothing is owed for it any more.
    scene.handle(RoomRead({1: ROOM_AGAIN}), 263_000)
    assert not owes(scene)
    scene.handle(RoomRead({}), 264_000)
    assert not owes(scene)


def test_leaderships_come_back_to_a_disk_whose_room_lasts() -> None:
    """Or a disk on the brink would throw clients to and fro."""
    scene = scene_with_topic()
    scene.handle(RoomRead({1: LOW}), 100_000)
    scene.handle(RoomRead({}), 200_000)

    assert scene.handle(BalanceDue(), 229_000).records == ()
    assert scene.handle(BalanceDue(), 230_000).records != ()
    assert [scene.state("t", index).leader for index in (0, 1)] == [1, 1]


def test_a_broker_that_does_not_catch_up_is_left_to_the_regular_balance() -> None:
    """Each look goes through all partitions of the cluster."""
    scene = scene_with_topic()
    scene.handle(RoomRead({1: STUCK}), 100_000)
    scene.handle(RoomRead({}), 200_000)
    scene.handle(BalanceDue(), 349_000)
    assert owes(scene)
    scene.handle(BalanceDue(), 350_000)
    assert not owes(scene)


def test_only_replicas_on_the_full_directory_are_concerned() -> None:
    """A broker may have several disks."""
    scene = scene_with_topic()
    scene.handle(RoomRead({1: RoomReport(Room.ENOUGH, {TopicPartition("t", 1): Room.NONE})}))

    assert (scene.state("t", 0).leader, scene.state("t", 0).isr) == (1, (1, 2, 3))
    assert (scene.state("t", 1).leader, scene.state("t", 1).isr) == (2, (2, 3))


def test_a_full_broker_is_given_nothing() -> None:
    """Neither by the balance, nor by wish, nor as the first leader of a new topic."""
    scene = scene_with_topic()
    scene.handle(RoomRead({1: LOW}))

    refused = scene.handle(ElectLeaders((PARTITION,)))
    assert partition_errors(refused) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    assert scene.handle(BalanceDue(), 10**9).records == ()
    scene.create(TopicSpec("new", 2, 2))
    for index in (0, 1):
        assert scene.state("new", index).replicas in ((2, 3), (3, 2))
    scene.create(TopicSpec("by-hand", assignment={0: [1, 2]}))
    assert scene.state("by-hand", 0).leader == 2
    scene.create(TopicSpec("alone", assignment={0: [1]}))
    assert scene.state("alone", 0).leader == 1


def test_a_new_partition_is_in_sync_without_those_that_can_append_nothing() -> None:
    """Its first write would wait for them."""
    scene = Scene(broker(1), broker(2))
    scene.handle(RoomRead({1: STUCK}))
    scene.create(TopicSpec("t", assignment={0: [1, 2]}))

    state = scene.state("t", 0)
    assert (state.leader, state.isr) == (2, (2,))
    scene.handle(RoomRead({1: STUCK, 2: STUCK}))
    scene.create(TopicSpec("u", assignment={0: [1, 2]}))
    assert (scene.state("u", 0).leader, scene.state("u", 0).isr) == (1, (1, 2))


def test_reports_are_read_as_they_were_written() -> None:
    """And say nothing as long as all disks have room."""
    first, second = TopicPartition("a", 0), TopicPartition("b", 7)
    report = report_on([(0, [first]), (2, [second])])

    assert report_on([(0, [first]), (0, [second])]) is None
    assert report_on([]) is None
    assert report is not None
    assert (report.of(first), report.of(second)) == (Room.ENOUGH, Room.NONE)
    assert parse(build(report)) == report
    assert report_on([(1, [first])]) == LOW
    assert parse(build(LOW)) == LOW
    assert parse(b"{}") is None
