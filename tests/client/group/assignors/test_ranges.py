"""The range assignor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given

from ottla.client.group.assignors.assignor import GroupDetails
from ottla.client.group.assignors.ranges import RangeAssignor
from tests.client.group.assignors.groups import COUNTS, WANTED, check_complete, divide, readable

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_the_documented_example_comes_out() -> None:
    """Java's documentation of its RangeAssignor: the first member has one more of each topic."""
    found = divide(RangeAssignor(), {"C0": ["t0", "t1"], "C1": ["t0", "t1"]}, {"t0": 3, "t1": 3})

    assert found == {"C0": ["t0p0", "t0p1", "t1p0", "t1p1"], "C1": ["t0p2", "t1p2"]}


def test_static_members_keep_their_place_under_another_member_id() -> None:
    """Static members are ordered by instance id: a restart changes only the member id."""
    wanted = {"x9": ["t"], "a1": ["t"], "k5": ["t"]}

    found = divide(
        RangeAssignor(), wanted, {"t": 3}, GroupDetails({"x9": "instance-1", "k5": "instance-2"})
    )

    assert found == {"x9": ["tp0"], "k5": ["tp1"], "a1": ["tp2"]}


def test_members_without_a_known_topic_get_nothing_and_an_answer() -> None:
    """The coordinator needs an entry for every member, or the member waits for ever."""
    found = divide(RangeAssignor(), {"C0": ["gone"], "C1": ["t"]}, {"t": 1})

    assert found == {"C0": [], "C1": ["tp0"]}


def test_a_member_that_speaks_nonsense_does_not_stop_the_others() -> None:
    """One member's malformed subscription would otherwise fail each leader in turn."""
    assignor = RangeAssignor()
    members = {"good": assignor.subscription(["t"], [], -1, None), "bad": b"\0"}

    assert readable(assignor.assign(members, {"t": 2})) == {"bad": [], "good": ["tp0", "tp1"]}


@given(WANTED, COUNTS)
def test_every_topic_is_divided_completely_and_evenly(
    wanted: dict[str, list[str]], counts: dict[str, int]
) -> None:
    """No partition is forgotten or assigned twice, and each member's run is contiguous."""
    found = divide(RangeAssignor(), wanted, counts)

    check_complete(found, wanted, counts)
    for topic in counts:
        runs = [
            [int(one.rpartition("p")[2]) for one in held if one.startswith(f"{topic}p")]
            for member_id, held in found.items()
            if topic in wanted[member_id]
        ]
        sizes = [len(run) for run in runs]
        assert not sizes or max(sizes) - min(sizes) <= 1
        assert all(run == list(range(run[0], run[-1] + 1)) for run in runs if run)


def near(assignor: RangeAssignor, racks: dict[str, str], replicas: Sequence[str]) -> object:
    """Topics t and u, both with a replica per partition in the racks named by letters."""
    members = {
        member_id: assignor.subscription(["t", "u"], [], -1, rack)
        for member_id, rack in racks.items()
    }
    where = [frozenset(letters) for letters in replicas]
    details = GroupDetails(racks={"t": where, "u": where})
    return readable(assignor.assign(members, {"t": len(replicas), "u": len(replicas)}, details))


def test_members_read_from_their_own_rack_where_that_stays_even() -> None:
    """KIP-881: a follower next to the member serves it, without traffic between racks."""
    found = near(RangeAssignor(), {"C0": "x", "C1": "y"}, ["y", "x", "y", "x"])

    assert found == {"C0": ["tp1", "tp3", "up1", "up3"], "C1": ["tp0", "tp2", "up0", "up2"]}


def test_racks_change_nothing_where_replicas_are_everywhere() -> None:
    """With replicas in every rack all reads are local, and users expect contiguous runs."""
    found = near(RangeAssignor(), {"C0": "x", "C1": "y"}, ["xy", "xy", "xy", "xy"])

    assert found == {"C0": ["tp0", "tp1", "up0", "up1"], "C1": ["tp2", "tp3", "up2", "up3"]}


def test_an_even_division_comes_before_a_near_one() -> None:
    """A member that is alone in its rack is not given twice the work."""
    found = near(RangeAssignor(), {"C0": "x", "C1": "y"}, ["x", "x", "x", "y"])

    assert found == {"C0": ["tp0", "tp1", "up0", "up1"], "C1": ["tp2", "tp3", "up2", "up3"]}
