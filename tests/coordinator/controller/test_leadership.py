"""The election rules on one partition."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.controller.leadership import Circumstances, settle
from ottla.coordinator.metadata.image import NO_LEADER, PartitionState


def partition(leader: int, isr: tuple[int, ...], eligible: tuple[int, ...] = ()) -> PartitionState:
    return PartitionState((1, 2, 3), leader, 5, isr, 7, eligible)


def now(*live: int, minimum: int = 1, **more: object) -> Circumstances:
    circumstances = Circumstances(frozenset(live), min_insync_replicas=minimum, controller_epoch=9)
    return replace(circumstances, **more)  # type: ignore[arg-type]


def ids(*nodes: int) -> frozenset[int]:
    return frozenset(nodes)


@pytest.mark.requirement("CTL-23")
def test_a_partition_without_state_is_led_by_its_first_live_replica() -> None:
    """All live replicas begin empty, so all are in sync."""
    made = settle(PartitionState((3, 1, 2)), now(1, 2))

    assert (made.leader, made.isr, made.leader_epoch) == (1, (1, 2), 0)
    waiting = PartitionState((3,))
    assert settle(waiting, now(1, 2)) is waiting


def test_nothing_changes_while_nothing_happened() -> None:
    """A new epoch for nothing would make every follower and client start over."""
    state = partition(1, (1, 2, 3))

    assert settle(state, now(1, 2, 3)) is state


@pytest.mark.requirement("CTL-18")
def test_a_survivor_of_the_isr_leads() -> None:
    """Only members of the ISR are known to hold all that was committed."""
    settled = settle(partition(1, (1, 3)), now(2, 3))

    assert (settled.leader, settled.isr) == (3, (3,))
    assert (settled.leader_epoch, settled.controller_epoch) == (6, 9)


def test_a_failed_follower_leaves_the_isr() -> None:
    """Otherwise acks=all would wait for the dead."""
    settled = settle(partition(1, (1, 2, 3)), now(1, 3))

    assert (settled.leader, settled.isr, settled.leader_epoch) == (1, (1, 3), 6)


@pytest.mark.requirement("CTL-20")
def test_without_survivor_no_replica_leads_and_the_isr_is_remembered() -> None:
    """The last member must be waited for: it alone has everything."""
    settled = settle(partition(1, (1,)), now(2, 3))

    assert (settled.leader, settled.isr) == (NO_LEADER, (1,))
    assert settle(settled, now(2, 3)) is settled
    back = settle(settled, now(1, 2, 3))
    assert (back.leader, back.leader_epoch) == (1, 7)


@pytest.mark.requirement("CTL-19")
def test_any_replica_may_lead_only_where_that_is_allowed() -> None:
    """R-25: availability at the price of committed records is a choice, and marked as recovery."""
    settled = settle(partition(1, (1,)), now(2, 3, allow_unclean_election=True))

    assert (settled.leader, settled.isr, settled.is_recovering) == (2, (2,), True)


def test_those_who_left_below_the_minimum_stay_eligible() -> None:
    """R-21: while the ISR was below its minimum nothing was committed without them."""
    alone = settle(partition(1, (1, 2, 3)), now(1, minimum=2))
    assert (alone.isr, alone.eligible_leaders) == ((1,), (2, 3))

    nobody = settle(alone, now(minimum=2))
    led = settle(nobody, now(3, minimum=2))
    assert (led.leader, led.isr, led.eligible_leaders) == (3, (3,), (2, 1))


def test_at_the_minimum_no_replica_outside_is_eligible() -> None:
    """The watermark moves on without them, so they may lack what is committed."""
    settled = settle(partition(1, (1, 2, 3)), now(1, 2, minimum=2))

    assert (settled.isr, settled.eligible_leaders) == ((1, 2), ())


@pytest.mark.parametrize("unclean", [ids(), ids(1)])
def test_a_single_replica_leads_again_with_a_higher_epoch(unclean: frozenset[int]) -> None:
    """R-23: every start is a failure first, even of the only replica after kill -9."""
    state = PartitionState((1,), 1, 5, (1,), 7)
    settled = settle(state, now(1, restarted=ids(1), unclean=unclean))

    assert (settled.leader, settled.isr, settled.leader_epoch) == (1, (1,), 6)


def test_a_leader_that_restarted_gives_way_to_the_rest_of_the_isr() -> None:
    """R-23: a restart that the controller did not see may have cost the broker its unsynced
    tail."""
    settled = settle(partition(1, (1, 2)), now(1, 2, 3, restarted=ids(1), unclean=ids(1)))

    assert (settled.leader, settled.isr) == (2, (2,))


def test_a_follower_that_restarted_must_earn_its_place_again() -> None:
    """It is out of the ISR until it has fetched everything."""
    settled = settle(partition(1, (1, 2)), now(1, 2, 3, restarted=ids(2)))

    assert (settled.leader, settled.isr, settled.leader_epoch) == (1, (1,), 6)


def test_an_unclean_last_member_does_not_lead_before_an_eligible_one() -> None:
    """R-21, last replica standing: 3 lost its tail; 2 left below the minimum and has everything."""
    state = partition(NO_LEADER, (3,), (2,))
    settled = settle(state, now(2, 3, minimum=2, restarted=ids(3), unclean=ids(3)))
    assert (settled.leader, settled.isr) == (2, (2,))

    waiting = settle(state, now(3, minimum=2, restarted=ids(3), unclean=ids(3)))
    assert (waiting.leader, waiting.isr, waiting.eligible_leaders) == (NO_LEADER, (), (2,))


def test_when_all_lost_their_tails_the_last_leader_leads() -> None:
    """No replica has all records, but refusing for ever would make the partition unavailable."""
    settled = settle(partition(2, (1, 2)), now(1, 2, restarted=ids(1, 2), unclean=ids(1, 2)))

    assert (settled.leader, settled.isr) == (2, (2,))


def test_a_restart_of_all_with_clean_stops_keeps_the_isr() -> None:
    """Stopping and starting the whole cluster must not leave single copies."""
    settled = settle(partition(2, (1, 2)), now(1, 2, restarted=ids(1, 2)))

    assert (settled.leader, settled.isr, settled.leader_epoch) == (1, (1, 2), 6)


NODES = st.frozensets(st.integers(1, 3))


@given(
    isr=st.lists(st.integers(1, 3), unique=True, min_size=1),
    leader=st.sampled_from([NO_LEADER, 1, 2, 3]),
    live=NODES,
    restarted=NODES,
    unclean=NODES,
    minimum=st.integers(1, 3),
)
def test_whatever_happens_the_rules_hold(
    isr: list[int],
    leader: int,
    live: frozenset[int],
    restarted: frozenset[int],
    unclean: frozenset[int],
    minimum: int,
) -> None:
    """Leader in ISR in replicas, no dead leader, no change without a new epoch, and an end."""
    leader = leader if leader in isr else NO_LEADER
    eligible = tuple(sorted({1, 2, 3} - set(isr))) if len(isr) < minimum else ()
    state = partition(leader, tuple(isr), eligible)
    restarted &= live
    circumstances = now(*live, minimum=minimum, restarted=restarted, unclean=unclean & restarted)
    settled = settle(state, circumstances)

    assert settled.leader == NO_LEADER or settled.leader in live & set(settled.isr)
    assert set(settled.isr) <= {1, 2, 3}
    assert not set(settled.isr) & set(settled.eligible_leaders)
    assert settled.isr or settled.eligible_leaders
    assert set(settled.isr) <= set(isr) | set(eligible), "nobody joins by an election"
    if settled is not state:
        assert settled.leader_epoch == state.leader_epoch + 1
    if live & set(settled.isr) or live & set(settled.eligible_leaders):
        assert settled.leader != NO_LEADER
    assert settle(settled, now(*live, minimum=minimum)) == settled
