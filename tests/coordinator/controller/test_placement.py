"""Where replicas go."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.controller.names import collision_key, find_name_fault
from ottla.coordinator.controller.placement import (
    broker_order,
    find_assignment_fault,
    place,
    too_few,
)
from tests.coordinator.controller.scene import broker

FOUR = {node_id: broker(node_id) for node_id in range(4)}


@pytest.mark.requirement("REP-04")
def test_replicas_follow_one_after_the_other() -> None:
    """The documented algorithm, from which operators predict where a partition is."""
    assert place(FOUR, [5], 3, 0) == {5: (1, 2, 3)}
    assert place(FOUR, [0, 3], 2, 0) == {0: (0, 1), 3: (3, 0)}


@pytest.mark.requirement("REP-05")
def test_leaders_and_replicas_are_spread_evenly() -> None:
    """A broker with more than its share is the first to be slow."""
    placed = place(FOUR, range(12), 3, 0)

    assert Counter(replicas[0] for replicas in placed.values()) == dict.fromkeys(range(4), 3)
    held = Counter(node_id for replicas in placed.values() for node_id in replicas)
    assert held == dict.fromkeys(range(4), 9)


def test_topics_of_one_partition_spread_over_the_brokers() -> None:
    """Starting at the first broker every time would put them all on one."""
    placed = [place(FOUR, [0], 1, start)[0][0] for start in range(8)]

    assert placed == [0, 1, 2, 3, 0, 1, 2, 3]


def test_each_rack_gets_a_replica_before_any_gets_two() -> None:
    """KIP-36: one rack without power must not take all replicas of a partition with it."""
    racks = {node_id: broker(node_id, rack="ab"[node_id // 3]) for node_id in range(6)}

    assert broker_order(racks) == [0, 3, 1, 4, 2, 5]
    for replicas in place(racks, range(12), 2, 0).values():
        assert {racks[node_id].rack for node_id in replicas} == {"a", "b"}


def test_racks_are_ignored_while_one_broker_has_none() -> None:
    """Half-known racks would pile replicas on the brokers that have one."""
    some = {0: broker(0, rack="a"), 1: broker(1), 2: broker(2, rack="a")}

    assert place(some, [0], 2, 0) == {0: (0, 1)}
    assert place(some, [2], 2, 0) == {2: (2, 0)}


@given(
    racks=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=9),
    factor=st.integers(1, 9),
    start=st.integers(0, 50),
)
def test_replicas_are_always_different_brokers(racks: list[str], factor: int, start: int) -> None:
    """Requirement ZKT-10: two replicas on one broker are one replica."""
    brokers = {node_id * 7: broker(node_id * 7, rack=rack) for node_id, rack in enumerate(racks)}
    factor = min(factor, len(brokers))
    for replicas in place(brokers, range(5), factor, start).values():
        assert len(set(replicas)) == factor
        used = Counter(brokers[node_id].rack for node_id in replicas)
        spread = min(factor, len(set(racks)))
        assert len(used) == spread


@pytest.mark.requirement("ZKT-10")
@pytest.mark.parametrize("replicas", [(), (1, 1), (9,), (1, 2, 3)])
def test_bad_assignments_are_refused(replicas: tuple[int, ...]) -> None:
    """An assignment by hand may be empty, repeat a broker or name a dead one."""
    assert find_assignment_fault(replicas, FOUR, 2) is not None
    assert find_assignment_fault((1, 2), FOUR, 2) is None


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a" * 250, "a b", "a/b", "ä", "a\n", "a:b", "a\0", "a,b"]
)
def test_names_that_cannot_be_directories_are_refused(name: str) -> None:
    """A name is part of a path on disk, in the store and in metrics."""
    assert find_name_fault(name) is not None


@pytest.mark.parametrize("name", ["a", "...", "a" * 249, "A.b_c-1", "__consumer_offsets", "-"])
def test_kafkas_names_are_accepted(name: str) -> None:
    """Clients bring the names they had."""
    assert find_name_fault(name) is None


def test_dots_and_underscores_collide() -> None:
    """Metrics write both as an underscore: two topics would share one counter."""
    assert collision_key("a.b") == collision_key("a_b")
    assert collision_key("a.b") != collision_key("a-b")


def test_the_refusal_of_a_replication_factor_says_how_many_brokers_are_alive() -> None:
    """A person reads it."""
    assert too_few(3, 1) == "replication factor 3, but only 1 broker is alive"
    assert too_few(3, 2) == "replication factor 3, but only 2 brokers are alive"
