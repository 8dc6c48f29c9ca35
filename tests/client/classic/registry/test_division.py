"""The nine steps: which member owns which partition, computed from plain values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.classic.registry.attempts import RebalanceAttempts, RebalanceSettings
from ottla.client.classic.registry.division import GroupImage, division
from ottla.client.classic.registry.layout import RegistryLayout, RegistrySlot, slots_of
from ottla.client.classic.registry.subscription import TopicCount, filtered, static
from ottla.client.classic.registry.topic_filter import blacklist, whitelist

ONE = static({"t": 1})


def image(members: dict[str, TopicCount], *slots: RegistrySlot) -> GroupImage:
    """What a member reads when these are all the partitions."""
    by_topic: dict[str, tuple[RegistrySlot, ...]] = {}
    for slot in slots:
        by_topic[slot.topic] = (*by_topic.get(slot.topic, ()), slot)
    return GroupImage(members, sorted(by_topic), by_topic)


def partitions(count: int, topic: str = "t") -> tuple[RegistrySlot, ...]:
    """The partitions of a topic, all on one broker."""
    return slots_of(topic, dict.fromkeys(range(count), (1,)), RegistryLayout.V08)


def owned(seen: GroupImage, consumer_id: str) -> list[int]:
    """The numbers of the partitions that a member takes."""
    return [slot.partition for slot in division(seen, consumer_id)]


def test_six_partitions_and_three_consumers_make_three_ranges() -> None:
    """The example of the documents; every member computes it alone, from the same reading."""
    seen = image({"c": ONE, "a": ONE, "b": ONE}, *partitions(6))

    assert [owned(seen, name) for name in "abc"] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.requirement("REB-07")
def test_the_remainder_is_owned_too() -> None:
    """The formula's integer division would leave the seventh partition without an owner."""
    seen = image(dict.fromkeys("abc", ONE), *partitions(7))

    assert [owned(seen, name) for name in "abc"] == [[0, 1, 2], [3, 4], [5, 6]]


@pytest.mark.requirement("REB-11")
def test_surplus_consumers_own_no_partition() -> None:
    """They wait in reserve, and nothing fails."""
    seen = image(dict.fromkeys("abcde", ONE), *partitions(3))

    assert [owned(seen, name) for name in "abcde"] == [[0], [1], [2], [], []]


@pytest.mark.requirement("REB-10")
def test_partitions_of_one_broker_stay_together() -> None:
    """Three brokers with two partitions each and three consumers: one connection for each."""
    replicas = {0: (1,), 1: (2,), 2: (3,), 3: (1,), 4: (2,), 5: (3,)}
    seen = image(dict.fromkeys("abc", ONE), *slots_of("t", replicas, RegistryLayout.V07))

    brokers = [{slot.broker for slot in division(seen, name)} for name in "abc"]

    assert brokers == [{1}, {2}, {3}]


@given(st.integers(0, 60), st.lists(st.integers(1, 4), min_size=1, max_size=9))
@pytest.mark.requirement("REB-13")
def test_every_partition_has_one_owner_and_shares_differ_by_one(
    count: int, streams: list[int]
) -> None:
    """Streams divide as consumers do; a member with more streams has more shares."""
    members = {f"m{index}": static({"t": one}) for index, one in enumerate(streams)}
    seen = image(members, *partitions(count))

    shares: dict[str, int] = {}
    taken: list[int] = []
    for name, wanted in members.items():
        found = division(seen, name)
        taken += [slot.partition for slot in found]
        for number in range(wanted.streams["t"]):
            shares[f"{name}-{number}"] = list(found.values()).count(f"{name}-{number}")

    assert sorted(taken) == list(range(count))
    assert max(shares.values()) - min(shares.values()) <= 1


def test_threads_are_sorted_as_text() -> None:
    """Java's members sort the names of threads as text: number 10 stands before number 2."""
    seen = image({"a": static({"t": 11})}, *partitions(11))

    names = {slot.partition: name for slot, name in division(seen, "a").items()}

    assert [names[number] for number in range(3)] == ["a-0", "a-1", "a-10"]


def test_a_filter_divides_every_topic_that_it_allows() -> None:
    """Members with a filter and members with names share the topics that both consume."""
    members = {"a": filtered(whitelist("a.*"), 1), "b": static({"a1": 1})}
    seen = image(members, *partitions(2, "a1"), *partitions(2, "a2"), *partitions(2, "b1"))

    assert {(one.topic, one.partition) for one in division(seen, "a")} == {
        ("a1", 0),
        ("a2", 0),
        ("a2", 1),
    }
    assert {(one.topic, one.partition) for one in division(seen, "b")} == {("a1", 1)}


def test_an_unregistered_member_owns_no_partition() -> None:
    """Its znode may have ended with its session; it has to register again first."""
    assert division(image({"a": ONE}, *partitions(2)), "b") == {}


def test_filters_match_whole_names_and_leave_internal_topics_out() -> None:
    """``a.*`` is no prefix rule, and a blacklist must not consume the offsets of all groups."""
    topics = ["a1", "ba1", "b1", "__consumer_offsets"]

    assert whitelist("a.*").chosen(topics) == ["a1"]
    assert blacklist("a.*").chosen(topics) == ["b1", "ba1"]
    assert whitelist(" 'a1, b1' ").chosen(topics) == ["a1", "b1"]
    assert blacklist("a.*").chosen(topics, excludes_internal=False)[0] == "__consumer_offsets"
    with pytest.raises(ValueError, match="no regular expression"):
        whitelist("(")


def test_attempts_end_unless_the_group_changes() -> None:
    """Four retries by default; a change begins a new situation."""
    attempts = RebalanceAttempts(RebalanceSettings(2, 50))

    waits = [attempts.failed(), attempts.failed()]
    attempts.changed()
    again = [attempts.failed(), attempts.failed(), attempts.failed()]

    assert waits == [50, 50]
    assert again == [50, 50, None]
