"""Groups for tests of assignors: subscriptions, and assignments in readable form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from ottla.client.group.assignors.assignor import NO_DETAILS, GroupDetails
from ottla.protocol.consumer_protocol import read_assignment
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.client.group.assignors.assignor import Assignor

Result = dict[str, list[str]]


def partition(text: str) -> TopicPartition:
    """``t0p3`` is partition 3 of topic t0."""
    topic, _, number = text.rpartition("p")
    return TopicPartition(topic, int(number))


def partitions(text: str) -> list[TopicPartition]:
    """Several of them, between spaces."""
    return [partition(one) for one in text.split()]


def readable(found: Mapping[str, bytes]) -> Result:
    """Every member's assignment, sorted."""
    result = {}
    for member_id, data in found.items():
        assignment, _version = read_assignment(data)
        result[member_id] = [
            f"{of_topic.topic}p{number}"
            for of_topic in assignment.assigned_partitions
            for number in of_topic.partitions
        ]
    return result


def divide(
    assignor: Assignor,
    wanted: Mapping[str, Sequence[str]],
    counts: Mapping[str, int],
    details: GroupDetails = NO_DETAILS,
) -> Result:
    """The first assignment of members that own nothing yet."""
    members = {
        member_id: assignor.subscription(topics, [], -1, None)
        for member_id, topics in wanted.items()
    }
    return readable(assignor.assign(members, counts, details))


TOPICS = ["a", "b", "c", "d"]
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1)
WANTED = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(7)]),
    st.lists(st.sampled_from(TOPICS), unique=True),
    min_size=1,
)


def check_complete(
    found: Result, wanted: Mapping[str, Sequence[str]], counts: Mapping[str, int]
) -> None:
    """Check that each partition of a wanted topic goes to exactly one member that wants the
    topic."""
    assert set(found) == set(wanted)
    given = sorted(one for held in found.values() for one in held)
    expected = sorted(
        f"{topic}p{number}"
        for topic, count in counts.items()
        if any(topic in topics for topics in wanted.values())
        for number in range(count)
    )
    assert given == expected
    for member_id, held in found.items():
        assert {one.rpartition("p")[0] for one in held} <= set(wanted[member_id])
