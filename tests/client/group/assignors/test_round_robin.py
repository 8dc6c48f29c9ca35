"""The round robin assignor."""

from __future__ import annotations

from hypothesis import given

from ottla.client.group.assignors.round_robin import RoundRobinAssignor
from tests.client.group.assignors.groups import COUNTS, WANTED, check_complete, divide


def test_the_documented_example_of_equal_subscriptions_comes_out() -> None:
    """Java's documentation of its RoundRobinAssignor."""
    found = divide(
        RoundRobinAssignor(), {"C0": ["t0", "t1"], "C1": ["t0", "t1"]}, {"t0": 3, "t1": 3}
    )

    assert found == {"C0": ["t0p0", "t0p2", "t1p1"], "C1": ["t0p1", "t1p0", "t1p2"]}


def test_the_documented_example_of_unequal_subscriptions_comes_out() -> None:
    """The weakness for which the sticky assignor was made: four partitions for C2."""
    found = divide(
        RoundRobinAssignor(),
        {"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]},
        {"t0": 1, "t1": 2, "t2": 3},
    )

    assert found == {"C0": ["t0p0"], "C1": ["t1p0"], "C2": ["t1p1", "t2p0", "t2p1", "t2p2"]}


@given(WANTED, COUNTS)
def test_everything_is_given_to_one_member_that_wants_it(
    wanted: dict[str, list[str]], counts: dict[str, int]
) -> None:
    """No partition is forgotten or assigned twice."""
    check_complete(divide(RoundRobinAssignor(), wanted, counts), wanted, counts)


@given(WANTED, COUNTS)
def test_members_that_want_the_same_get_equally_many(
    wanted: dict[str, list[str]], counts: dict[str, int]
) -> None:
    """An even share is all that this assignor promises."""
    found = divide(RoundRobinAssignor(), dict.fromkeys(wanted, sorted(counts)), counts)

    sizes = [len(held) for held in found.values()]
    assert max(sizes) - min(sizes) <= 1
