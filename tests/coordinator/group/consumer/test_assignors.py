"""Property tests of the server's assignors."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.group.consumer.assignment import Assignment, pairs_of, size_of
from ottla.coordinator.group.consumer.assignors import ASSIGNORS, AssignmentTask

if TYPE_CHECKING:
    from ottla.protocol.ids import Uuid

TOPICS = [b"topic".ljust(15, b".") + bytes([index]) for index in range(5)]
MEMBERS = [f"m{index}" for index in range(8)]

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9), min_size=1)


@st.composite
def tasks(draw: st.DrawFn, *, is_alike: bool = False) -> AssignmentTask:
    partition_counts = draw(counts)
    wish = st.frozensets(st.sampled_from(sorted(partition_counts)))
    members = draw(st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True))
    same = draw(wish)
    subscribed = {member: same if is_alike else draw(wish) for member in members}
    previous: dict[str, dict[Uuid, frozenset[int]]] = {}
    for topic_id in TOPICS:
        for partition in range(draw(st.integers(0, 12))):
            member = draw(st.sampled_from(MEMBERS))
            topics = previous.setdefault(member, {})
            topics[topic_id] = topics.get(topic_id, frozenset()) | {partition}
    return AssignmentTask(partition_counts, subscribed, {}, previous)


def loads(found: dict[str, Assignment]) -> list[int]:
    return sorted(size_of(assignment) for assignment in found.values())


def moved(task: AssignmentTask, found: dict[str, Assignment]) -> int:
    """Counts the partitions that a member could have kept and has lost."""
    return sum(
        pair not in set(pairs_of(found[member_id]))
        for member_id in found
        for pair in valid_before(task, member_id)
    )


def valid_before(task: AssignmentTask, member_id: str) -> list[tuple[Uuid, int]]:
    return [
        (topic_id, partition)
        for topic_id, partition in pairs_of(task.previous.get(member_id, {}))
        if topic_id in task.subscribed[member_id] and partition < task.partition_counts[topic_id]
    ]


@given(task=tasks(), name=st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_with_a_subscriber_has_exactly_one_owner(
    task: AssignmentTask, name: str
) -> None:
    """A partition with two owners is read twice, one without is not read at all."""
    found = ASSIGNORS[name](task)

    owners = Counter(pair for assignment in found.values() for pair in pairs_of(assignment))
    wanted: frozenset[Uuid] = frozenset().union(*task.subscribed.values())
    assert owners == Counter(
        (topic_id, index) for topic_id in wanted for index in range(task.partition_counts[topic_id])
    )
    assert found.keys() == task.subscribed.keys()


@given(task=tasks(), name=st.sampled_from(sorted(ASSIGNORS)))
def test_no_member_gets_a_topic_without_having_subscribed(task: AssignmentTask, name: str) -> None:
    """A consumer would refuse records of a topic it did not ask for."""
    found = ASSIGNORS[name](task)

    assert all(found[member].keys() <= task.subscribed[member] for member in found)
    assert all(partitions for assignment in found.values() for partitions in assignment.values())


@given(task=tasks(), name=st.sampled_from(sorted(ASSIGNORS)))
def test_the_same_input_gives_the_same_assignment(task: AssignmentTask, name: str) -> None:
    """Another coordinator, or a seed run again, has to come to the same target."""
    shuffled = AssignmentTask(
        dict(sorted(task.partition_counts.items(), reverse=True)),
        {name: task.subscribed[name] for name in reversed(list(task.subscribed))},
        task.instance_ids,
        {name: task.previous[name] for name in reversed(list(task.previous))},
    )

    assert ASSIGNORS[name](task) == ASSIGNORS[name](shuffled)


@given(task=tasks(is_alike=True))
def test_uniform_is_within_one_where_all_subscribe_alike(task: AssignmentTask) -> None:
    """No member should have twice the load of another while all subscribe to the same topics."""
    found = loads(ASSIGNORS["uniform"](task))

    assert found[-1] - found[0] <= 1


@given(task=tasks(is_alike=True))
def test_uniform_moves_no_partition_that_balance_does_not_move(task: AssignmentTask) -> None:
    """Each movement interrupts a consumer; the fewest are those above the quotas."""
    total = sum(task.partition_counts[topic] for topic in next(iter(task.subscribed.values())))
    had = sorted((len(valid_before(task, member)) for member in task.subscribed), reverse=True)
    quota, extra = divmod(total, len(task.subscribed))
    # Two members of the past may have had the same partition: only one of them may keep it.
    doubles = sum(had) - len(
        {pair for member in task.subscribed for pair in valid_before(task, member)}
    )
    fewest = sum(max(0, size - quota - (index < extra)) for index, size in enumerate(had))

    assert moved(task, ASSIGNORS["uniform"](task)) <= fewest + doubles


@given(task=tasks())
@settings(max_examples=200)
def test_uniform_leaves_no_chain_that_would_make_it_more_even(task: AssignmentTask) -> None:
    """Where subscriptions differ, an uneven spread has to be the subscriptions' fault."""
    found = ASSIGNORS["uniform"](task)

    for giver in found:
        reachable, grown = {giver}, True
        while grown:
            topics = {topic for member in reachable for topic in found[member]}
            takers = {member for member in found if task.subscribed[member] & topics}
            grown = not takers <= reachable
            reachable |= takers
        assert size_of(found[giver]) <= min(size_of(found[member]) for member in reachable) + 1


@given(task=tasks())
def test_uniform_leaves_a_balanced_group_alone(task: AssignmentTask) -> None:
    """A new epoch for other reasons, a client's new host say, must not move a thing."""
    first = ASSIGNORS["uniform"](task)
    again = AssignmentTask(task.partition_counts, task.subscribed, {}, first)

    assert ASSIGNORS["uniform"](again) == first


def test_range_gives_neighbours_and_the_odd_ones_to_the_first() -> None:
    """Topics of equal size are joined by partition: the same member has the same ones of each."""
    both = frozenset(TOPICS[:2])
    task = AssignmentTask({TOPICS[0]: 5, TOPICS[1]: 5}, {"a": both, "b": both}, {}, {})

    found = ASSIGNORS["range"](task)

    assert found["a"] == {topic: frozenset({0, 1, 2}) for topic in both}
    assert found["b"] == {topic: frozenset({3, 4}) for topic in both}


def test_range_ranks_static_members_by_instance_id_and_before_the_others() -> None:
    """A static member that comes back under another id finds its partitions again (KIP-345)."""
    wish = frozenset(TOPICS[:1])
    subscribed = dict.fromkeys(["a", "x", "y"], wish)

    before = AssignmentTask({TOPICS[0]: 3}, subscribed, {"x": "one", "y": "two"}, {})
    after = AssignmentTask(
        {TOPICS[0]: 3}, dict.fromkeys(["a", "n", "y"], wish), {"n": "one", "y": "two"}, {}
    )

    assert (
        ASSIGNORS["range"](before)["x"]
        == ASSIGNORS["range"](after)["n"]
        == {TOPICS[0]: frozenset({0})}
    )
    assert ASSIGNORS["range"](before)["a"] == {TOPICS[0]: frozenset({2})}
