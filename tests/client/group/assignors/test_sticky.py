"""The sticky assignors, eager and cooperative."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.group.assignors.claims import OwnedClaim, rightful_owners
from ottla.client.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from ottla.client.group.assignors.sticky_data import decode_sticky, encode_sticky
from ottla.protocol.ids import TopicPartition
from tests.client.group.assignors.groups import (
    COUNTS,
    TOPICS,
    WANTED,
    Result,
    check_complete,
    divide,
    partitions,
    readable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ALL = ["t0", "t1", "t2", "t3"]


class EagerGroup:
    """Members with an assignor each, who give up everything before they join."""

    def __init__(self) -> None:
        self.assignors: dict[str, StickyAssignor] = {}
        self.generation = 0

    def rebalance(self, wanted: Mapping[str, Sequence[str]], counts: Mapping[str, int]) -> Result:
        self.generation += 1
        members = {
            member_id: self.assignors.setdefault(member_id, StickyAssignor()).subscription(
                topics, [], -1, None
            )
            for member_id, topics in wanted.items()
        }
        found = StickyAssignor().assign(members, counts)
        for member_id, assignment in found.items():
            self.assignors[member_id].on_assignment(assignment, self.generation)
        return readable(found)


def test_the_documented_example_of_equal_subscriptions_comes_out() -> None:
    """Java's documentation of its StickyAssignor: C1 leaves, and only what it had moves."""
    group = EagerGroup()
    counts = dict.fromkeys(ALL, 2)

    first = group.rebalance({"C0": ALL, "C1": ALL, "C2": ALL}, counts)
    second = group.rebalance({"C0": ALL, "C2": ALL}, counts)

    assert first == {
        "C0": ["t0p0", "t1p1", "t3p0"],
        "C1": ["t0p1", "t2p0", "t3p1"],
        "C2": ["t1p0", "t2p1"],
    }
    assert second == {
        "C0": ["t0p0", "t1p1", "t2p0", "t3p0"],
        "C2": ["t0p1", "t1p0", "t2p1", "t3p1"],
    }


def test_the_documented_example_of_unequal_subscriptions_comes_out() -> None:
    """The same page: C0 leaves, C1 and C2 keep all they have."""
    group = EagerGroup()
    counts = {"t0": 1, "t1": 2, "t2": 3}
    wanted = {"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]}

    first = group.rebalance(wanted, counts)
    second = group.rebalance({"C1": wanted["C1"], "C2": wanted["C2"]}, counts)

    assert first == {"C0": ["t0p0"], "C1": ["t1p0", "t1p1"], "C2": ["t2p0", "t2p1", "t2p2"]}
    assert second == {"C1": ["t0p0", "t1p0", "t1p1"], "C2": ["t2p0", "t2p1", "t2p2"]}


@given(WANTED, COUNTS)
def test_everything_is_given_to_one_member_that_wants_it(
    wanted: dict[str, list[str]], counts: dict[str, int]
) -> None:
    """No partition is forgotten or assigned twice."""
    check_complete(divide(StickyAssignor(), wanted, counts), wanted, counts)


def test_a_member_of_an_older_generation_claims_in_vain() -> None:
    """Another member got its partitions while it was away (KIP-341)."""
    claims = [
        OwnedClaim("away", partitions("tp0 tp1"), 4),
        OwnedClaim("here", partitions("tp0"), 5),
        OwnedClaim("old", partitions("tp1"), -1),
    ]

    assert rightful_owners(claims) == {
        TopicPartition("t", 0): "here",
        TopicPartition("t", 1): "away",
    }


def test_of_two_claims_of_one_generation_neither_counts() -> None:
    """One of the two claims is wrong, and the leader cannot tell which."""
    claims = [OwnedClaim("a", partitions("tp0 tp1"), 4), OwnedClaim("b", partitions("tp0"), 4)]

    assert rightful_owners(claims) == {TopicPartition("t", 1): "a"}


@given(st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 99)), unique=True), st.integers())
def test_user_data_comes_back(held: list[tuple[str, int]], number: int) -> None:
    """In the form of Java, which has no room for more than 32 bits."""
    previous = sorted(TopicPartition(*one) for one in held)
    generation = number % 2**31

    assert decode_sticky(encode_sticky(previous, generation)) == (previous, generation)


@given(st.binary(max_size=40))
def test_any_user_data_is_read_or_ignored(data: bytes) -> None:
    """User data comes from other members, of any client in any version."""
    held, generation = decode_sticky(data)

    assert generation >= -(2**31)
    assert all(isinstance(one, TopicPartition) for one in held)


class CooperativeGroup:
    """Members that keep what they have, as far as the next assignment lets them (KIP-429)."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.assignor = CooperativeStickyAssignor()
        self.counts = counts
        self.held: dict[str, frozenset[TopicPartition]] = {}
        self.joined: dict[str, int] = {}
        self.generation = 0
        # Who was given what who else still claimed.
        self.taken: list[tuple[str, str]] = []

    def subscriptions(self, wanted: Mapping[str, Sequence[str]]) -> dict[str, bytes]:
        """The subscription of each member, with the partitions that it claims."""
        return {
            member_id: self.assignor.subscription(
                topics, sorted(self.held.get(member_id, ())), self.joined.get(member_id, -1), None
            )
            for member_id, topics in wanted.items()
        }

    def rebalance(self, wanted: Mapping[str, Sequence[str]]) -> bool:
        """Run one generation; True when a member gave a partition up and has to join again."""
        self.generation += 1
        found = self.assignor.assign(self.subscriptions(wanted), self.counts)
        before = {member_id: self.held.get(member_id, frozenset()) for member_id in found}
        for member_id, data in found.items():
            mine = frozenset(self.assignor.on_assignment(data, self.generation))
            gained = mine - before[member_id]
            self.taken += [
                (member_id, other)
                for other, claimed in before.items()
                if other != member_id and gained & claimed
            ]
            self.held[member_id] = mine
            self.joined[member_id] = self.generation
        return any(before[member_id] - self.held[member_id] for member_id in found)

    def settle(self, wanted: Mapping[str, Sequence[str]]) -> int:
        """Rebalance until no member has to join again; return the number of rounds."""
        count = 1
        while self.rebalance(wanted):
            count += 1
            assert count < 10
        return count


HISTORIES = st.lists(WANTED, min_size=1, max_size=5)


@given(HISTORIES, COUNTS)
def test_no_member_is_given_what_another_still_claims(
    history: list[dict[str, list[str]]], counts: dict[str, int]
) -> None:
    """Members come, go, return with what they once had, and change their minds."""
    group = CooperativeGroup(counts)
    for wanted in history:
        group.rebalance(wanted)

    assert group.taken == []


@given(HISTORIES, COUNTS)
def test_two_more_rebalances_settle_every_group(
    history: list[dict[str, list[str]]], counts: dict[str, int]
) -> None:
    """Partitions that are given up in the first are assigned in the second. A returning member may
    claim what is another's by now: the other must not lose it."""
    group = CooperativeGroup(counts)
    for wanted in history:
        group.rebalance(wanted)

    assert group.settle(history[-1]) <= 3

    found = {
        member_id: [f"{topic}p{number}" for topic, number in sorted(group.held[member_id])]
        for member_id in history[-1]
    }
    check_complete(found, history[-1], counts)


@given(WANTED, COUNTS)
def test_a_settled_group_gives_nothing_up(
    wanted: dict[str, list[str]], counts: dict[str, int]
) -> None:
    """Members keep reading through a rebalance that changes nothing."""
    group = CooperativeGroup(counts)
    group.settle(wanted)
    before = {member_id: group.held[member_id] for member_id in wanted}

    assert not group.rebalance(wanted)

    assert {member_id: group.held[member_id] for member_id in wanted} == before


def test_what_two_claim_of_one_generation_is_given_to_neither() -> None:
    """Both stop reading it first."""
    group = CooperativeGroup({"t": 2})
    group.held = dict.fromkeys(("a", "b"), frozenset(partitions("tp0")))
    group.joined = {"a": 3, "b": 3}

    assert group.rebalance({"a": ["t"], "b": ["t"]})

    assert not (group.held["a"] | group.held["b"]) & set(partitions("tp0"))
