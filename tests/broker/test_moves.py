"""Replicas move between real brokers while a producer writes: nothing is lost, nothing stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tests.broker.test_replication import PARTITIONS, TOPIC, Load, values_in
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.server.broker import Broker
    from ottla.protocol.ids import TopicPartition
    from tests.broker.support.brokers import Brokers


def controller(brokers: Brokers) -> Broker:
    """As the living agree."""
    (found,) = {broker.metadata.controller_id for broker in brokers.alive.values()}
    return brokers.alive[found]


async def make_topic(brokers: Brokers, replicas: Sequence[int]) -> None:
    wanted = CreatableTopic(
        TOPIC,
        -1,
        -1,
        [CreatableReplicaAssignment(index, list(replicas)) for index in range(PARTITIONS)],
    )
    address = controller(brokers).address
    async with RawClient(address.host, address.port) as client:
        answer = await client.call(5, CreateTopicsRequest([wanted], timeout_ms=10_000))
    assert answer.topics[0].error_code == ErrorCode.NONE


async def move(brokers: Brokers, replicas: Sequence[int]) -> None:
    """All partitions of the topic."""
    partitions = [ReassignablePartition(index, list(replicas)) for index in range(PARTITIONS)]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(TOPIC, partitions)])
    address = controller(brokers).address
    async with RawClient(address.host, address.port) as client:
        answer = await client.call(0, request)
    for part in answer.responses[0].partitions:
        assert part.error_code == ErrorCode.NONE


def assigned(brokers: Brokers) -> set[tuple[int, ...]]:
    """The replicas of all partitions, as all the living believe."""
    return {
        state.replicas
        for broker in brokers.alive.values()
        for state in broker.metadata.image.topics[TOPIC].partitions.values()
    }


def holds(brokers: Brokers, node_id: int) -> list[TopicPartition]:
    """The partitions of the topic that a broker has on its disk."""
    return [log.partition for log in brokers.alive[node_id].partitions.logs]


@pytest.mark.requirement("CTL-36", "CTL-42")
async def test_partitions_move_under_load_and_leave_nothing_behind(brokers: Brokers) -> None:
    """The leader itself moves: its clients follow, and its directories are removed."""
    await make_topic(brokers, [1, 2])
    async with Load(brokers) as load:
        await load.progress()
        await move(brokers, [3, 2])
        await brokers.until(lambda: assigned(brokers) == {(3, 2)})
        await load.progress()
    await brokers.until(lambda: holds(brokers, 1) == [])

    found: list[bytes] = []
    for index in range(PARTITIONS):
        assert brokers.leader(TOPIC, index) == 3
        found += values_in(brokers.content(3, TOPIC, index))
    assert set(load.acknowledged) <= set(found)
    assert len(found) == len(set(found))


@pytest.mark.requirement("CTL-42")
async def test_a_broker_that_was_away_removes_what_was_moved_meanwhile(brokers: Brokers) -> None:
    """The controller could not tell it; the left replica would take the disk's space for good."""
    await make_topic(brokers, [1, 2])
    async with Load(brokers) as load:
        await load.progress()
    await brokers.until_in_sync(TOPIC, 2)
    await brokers.stop_one(1)
    await brokers.until(
        lambda: {one.metadata.controller_id for one in brokers.alive.values()} < {2, 3}
    )
    await move(brokers, [3, 2])
    await brokers.until(lambda: assigned(brokers) == {(3, 2)})
    await brokers.start_one(1)
    await brokers.until(lambda: holds(brokers, 1) == [])

    for index in range(PARTITIONS):
        assert values_in(brokers.content(3, TOPIC, index))
