"""A client's view of the cluster's metadata."""

from __future__ import annotations

import pytest

from ottla.client.cluster.metadata import ClusterMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.ports import Address

FIRST = TopicPartition("t", 0)
OLD_ID = b"\1" * 16
NEW_ID = b"\2" * 16


def answer(leader_id: int, leader_epoch: int, topic_id: bytes = OLD_ID) -> MetadataResponse:
    """Two brokers and one topic of one partition."""
    partition = MetadataResponsePartition(0, 0, leader_id, leader_epoch, [1, 2], [1])
    return MetadataResponse(
        brokers=[MetadataResponseBroker(1, "one", 9092), MetadataResponseBroker(2, "two", 9092)],
        cluster_id="c",
        controller_id=2,
        topics=[MetadataResponseTopic(0, "t", topic_id, partitions=[partition])],
    )


def learned(*answers: MetadataResponse) -> ClusterMetadata:
    """The cache after these answers."""
    metadata = ClusterMetadata()
    for number, response in enumerate(answers):
        metadata.apply(response, number)
    return metadata


def test_an_answer_is_taken_over() -> None:
    """Brokers, controller, leaders."""
    metadata = learned(answer(1, 3))

    assert metadata.leader_of(FIRST) == 1
    assert metadata.controller_id == 2
    assert metadata.brokers[2].address == Address("two", 9092)
    assert metadata.updated_ms == 0


@pytest.mark.parametrize(("epoch", "leader"), [(4, 2), (3, 2), (2, 1)])
def test_a_leader_of_an_older_epoch_is_not_taken_over(epoch: int, leader: int) -> None:
    """Hazard C-21: a broker that lags would send us back to the deposed leader."""
    assert learned(answer(1, 3), answer(2, epoch)).leader_of(FIRST) == leader


def test_a_topic_that_was_made_again_begins_with_fresh_epochs() -> None:
    """Its epochs say nothing about those of the deleted one."""
    assert learned(answer(1, 30), answer(2, 0, NEW_ID)).leader_of(FIRST) == 2


def test_a_partition_without_leader_or_with_an_unknown_one_has_none() -> None:
    """There is no broker to send to."""
    assert learned(answer(-1, 3)).leader_of(FIRST) is None
    assert learned(answer(9, 3)).leader_of(FIRST) is None
    assert learned(answer(1, 3)).leader_of(TopicPartition("t", 1)) is None
    assert learned(answer(1, 3)).leader_of(TopicPartition("u", 0)) is None


def test_available_partitions_are_those_with_a_leader() -> None:
    """Records without a key go to these only."""
    response = answer(1, 3)
    response.topics[0].partitions.append(MetadataResponsePartition(0, 2, 1, 0))
    response.topics[0].partitions.append(MetadataResponsePartition(5, 1, -1, 0))

    topic = learned(response).topics["t"]

    assert (topic.partition_count, topic.available) == (3, [0, 2])
    assert list(topic.partitions) == [0, 1, 2]


def test_an_unknown_topic_is_remembered_as_such() -> None:
    """A caller that waits for the topic learns why it is missing."""
    topic = learned(denial()).topics["t"]

    assert (topic.error, topic.partition_count) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)


def denial() -> MetadataResponse:
    """An answer of a broker that does not know the topic."""
    response = answer(1, 3)
    response.topics = [MetadataResponseTopic(int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "t")]
    return response


def test_a_topic_in_use_survives_a_broker_that_does_not_know_it_yet() -> None:
    """A broker that has just started does not know the topic for a moment; forgetting it would fail
    every record."""
    metadata = learned(answer(1, 3), denial())

    assert metadata.leader_of(FIRST) == 1
    assert metadata.topics["t"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert learned(answer(1, 3), denial(), answer(2, 4)).topics["t"].error is ErrorCode.NONE


def test_an_answer_without_brokers_does_not_make_us_forget_them() -> None:
    """A broker that has just started does not know the other brokers yet."""
    empty = MetadataResponse(cluster_id="c", controller_id=-1)

    assert set(learned(answer(1, 3), empty).brokers) == {1, 2}
