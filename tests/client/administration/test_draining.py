"""Where the replicas of a broker go that is to be taken out of a cluster."""

from __future__ import annotations

import pytest

from ottla.client.administration.draining import NoRoom, drained
from ottla.client.cluster.metadata import PartitionView, TopicView
from ottla.protocol.ids import TopicPartition


def topic(name: str, *replicas: tuple[int, ...]) -> TopicView:
    """A topic whose partitions have these replicas."""
    partitions = {
        index: PartitionView(index, nodes[0], 0, nodes, nodes, ())
        for index, nodes in enumerate(replicas)
    }
    return TopicView(name, partitions=partitions)


def test_each_replica_goes_to_the_broker_with_the_fewest() -> None:
    """And takes the old one's place, so that leaders stay spread."""
    topics = [topic("a", (1, 2), (2, 1), (3, 2)), topic("b", (1,), (2, 3))]

    moves = drained(topics, 1, {2: None, 3: None, 4: None})

    assert moves == {
        TopicPartition("a", 0): (4, 2),
        TopicPartition("a", 1): (2, 4),
        TopicPartition("b", 0): (3,),
    }


def test_a_rack_without_a_replica_comes_first() -> None:
    """Two replicas in one rack are lost together."""
    moves = drained([topic("a", (1, 2), (3, 4), (4, 3))], 1, {2: "x", 3: "x", 4: "y", 5: "x"})

    assert moves == {TopicPartition("a", 0): (4, 2)}


def test_a_partition_that_no_broker_can_take_is_named() -> None:
    """Nothing moves then: half a drained broker helps no operator."""
    with pytest.raises(NoRoom, match="topic 'a' partition 0 has 3 replicas"):
        drained([topic("a", (1, 2, 3))], 1, {2: None, 3: None})


@pytest.mark.parametrize(
    ("replicas", "targets", "end"),
    [
        ((1,), (), "has 1 replica, and no other broker can take it"),
        ((1, 2), (2,), "has 2 replicas, and only 1 other broker can take one"),
        ((1, 2, 3), (2, 3), "has 3 replicas, and only 2 other brokers can take one"),
    ],
)
def test_the_refusal_counts_in_words_that_fit(
    replicas: tuple[int, ...], targets: tuple[int, ...], end: str
) -> None:
    """One of a kind is singular."""
    with pytest.raises(NoRoom, match=f"{end}$"):
        drained([topic("a", replicas)], 1, dict.fromkeys(targets))
