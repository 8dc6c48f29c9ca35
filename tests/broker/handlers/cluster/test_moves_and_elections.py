"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments and ControlledShutdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.controlling.controller import ControllerCandidate
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.broker.support.requests import create
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_an_election_answers_for_each_partition(client: RawClient, version: int) -> None:
    """All versions say the same; a lone broker leads everything already."""
    await create(client, partitions=2)
    wanted = [TopicPartitions("t", [0, 7]), TopicPartitions("none", [0])]
    answer = await client.call(version, ElectLeadersRequest(topic_partitions=wanted))

    assert answer.error_code == ErrorCode.NONE
    assert {
        (one.topic, part.partition_id): part.error_code
        for one in answer.replica_election_results
        for part in one.partition_result
    } == {
        ("t", 0): ErrorCode.ELECTION_NOT_NEEDED,
        ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_an_election_of_everything_names_only_what_was_done(client: RawClient) -> None:
    """Thousands of "not needed" would hide the one that failed (KIP-460)."""
    await create(client, partitions=2)
    answer = await client.call(2, ElectLeadersRequest(topic_partitions=None))

    assert (answer.error_code, answer.replica_election_results) == (ErrorCode.NONE, [])


async def test_an_unknown_kind_of_election_is_refused(client: RawClient) -> None:
    """Treated as a preferred election, it would do what the client did not ask for."""
    wanted = [TopicPartitions("t", [0])]
    answer = await client.call(2, ElectLeadersRequest(election_type=5, topic_partitions=wanted))

    assert answer.error_code == ErrorCode.INVALID_REQUEST
    (result,) = answer.replica_election_results
    assert result.partition_result[0].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_an_election_that_cannot_be_is_refused_in_all_versions(version: int) -> None:
    """Version 0 has no error for the whole; an answer with one could not be sent at all."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        lifecycle = running.broker.state.lifecycle
        assert lifecycle is not None
        # As every broker but the controller answers.
        for follower in lifecycle._followers:
            if isinstance(follower, ControllerCandidate):
                await follower.end()
        wanted = [TopicPartitions("t", [0])]
        answer = await client.call(version, ElectLeadersRequest(topic_partitions=wanted))

    assert answer.error_code == (ErrorCode.NOT_CONTROLLER if version else ErrorCode.NONE)
    (result,) = answer.replica_election_results
    assert result.partition_result[0].error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("version", [0, 1])
async def test_moves_are_answered_one_by_one(client: RawClient, version: int) -> None:
    """One wrong partition does not invalidate the others of the plan."""
    await create(client, partitions=6)
    partitions = [
        ReassignablePartition(0, None),
        ReassignablePartition(1, [77]),
        ReassignablePartition(2, [1]),
        ReassignablePartition(3, []),
        ReassignablePartition(4, [1]),
        ReassignablePartition(4, [1]),
    ]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("t", partitions)])
    answer = await client.call(version, request)

    assert answer.error_code == ErrorCode.NONE
    (topic,) = answer.responses
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
        (0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (1, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, ErrorCode.NONE),
        (3, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (4, ErrorCode.INVALID_REQUEST),
    ]


async def test_moves_that_are_over_are_not_listed(client: RawClient) -> None:
    """An empty list is how tools learn that everything is done."""
    await create(client)
    for topics in (None, [ListPartitionReassignmentsTopics("t", [0, 1])]):
        answer = await client.call(0, ListPartitionReassignmentsRequest(topics=topics))
        assert (answer.error_code, answer.topics) == (ErrorCode.NONE, [])


async def test_a_shutdown_is_fenced_by_the_brokers_epoch(client: RawClient) -> None:
    """C-09: what was sent before a restart must not be done after it."""
    for node_id, epoch, error in (
        (1, 77_777, ErrorCode.STALE_BROKER_EPOCH),
        (9, -1, ErrorCode.BROKER_NOT_AVAILABLE),
    ):
        answer = await client.call(3, ControlledShutdownRequest(node_id, epoch))
        assert answer.error_code == error
    await create(client)
    answer = await client.call(3, ControlledShutdownRequest(1, -1))

    # No other broker could lead it, so nothing is left to be moved.
    assert (answer.error_code, answer.remaining_partitions) == (ErrorCode.NONE, [])
