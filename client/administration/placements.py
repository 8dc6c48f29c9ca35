"""Moves replicas (KIP-455) and elects leaders (KIP-460).

Every request goes to the controller. Each partition has a result of its own, so that one refusal
does not hide the successes; an error of the whole request is raised.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.client.records.arguments import INT32_MAX, by_partition, partitions_of, whole
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.api import declare
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.client.cluster.routing import Router
    from ottla.wire.connection import Connection

    Outcomes = dict[TopicPartition, RequestRefused | None]

_ALTER = declare(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
_LIST = declare(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
_ELECT = declare(ApiKey.ELECT_LEADERS, ElectLeadersRequest, ElectLeadersResponse, 1)


class ElectionType(IntEnum):
    """Which leader to elect.

    PREFERRED elects the first replica of each partition. UNCLEAN elects any live replica if no
    in-sync replica is left; records that only the other replicas have are lost."""

    PREFERRED = 0
    UNCLEAN = 1


class ReplicaMove(NamedTuple):
    """A move of replicas under way: all present replicas, those to come and those to go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Placements:
    """Moves replicas and elects leaders; ``Admin.placements``."""

    def __init__(self, router: Router, timeout_ms: int) -> None:
        self._router = router
        self._timeout_ms = timeout_ms

    async def move(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> Outcomes:
        """Begin to move partitions to other brokers.

        Args:
            targets: The replicas of each partition, preferred leader first; None cancels a move.

        Returns:
            For each partition None if its move has begun, or why it has not.

        Raises:
            RequestRefused: The controller refused the whole request.
        """
        topics: dict[str, ReassignableTopic] = {}
        for where, replicas in by_partition("targets", targets).items():
            topic = topics.setdefault(where.topic, ReassignableTopic(where.topic))
            wanted = None
            if replicas is not None:
                if not isinstance(replicas, Iterable):
                    raise TypeError(f"replicas are a list of brokers, not {replicas!r}")
                wanted = [whole("a broker", replica, 0, INT32_MAX) for replica in replicas]
            topic.partitions.append(ReassignablePartition(where.partition, wanted))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms, topics=list(topics.values())
        )
        response = await self._router.to_controller(_ALTER, request, _check)
        return {
            where: _refusal(part.error_code, part.error_message, where)
            for answer in response.responses
            for part in answer.partitions
            for where in [TopicPartition(answer.name, part.partition_index)]
        }

    async def moves(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ReplicaMove]:
        """List the moves in progress.

        Args:
            partitions: The partitions to ask for; None (default) for all.

        Returns:
            The move of each partition that has one.

        Raises:
            RequestRefused: The controller refused.
        """
        topics: list[ListPartitionReassignmentsTopics] | None = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(topic, indexes)
                for topic, indexes in by_topic(partitions).items()
            ]
        request = ListPartitionReassignmentsRequest(self._timeout_ms, topics)
        response = await self._router.to_controller(_LIST, request, _check)
        return {
            TopicPartition(topic.name, part.partition_index): ReplicaMove(
                tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
            )
            for topic in response.topics
            for part in topic.partitions
        }

    async def has_resigned(self, node_id: int) -> bool:
        """Ask a broker that the cluster lists as the controller whether it is not.

        Args:
            node_id: The broker's id.

        Returns:
            True if the broker answers that it is not the controller.

        Raises:
            TransportError: The broker did not answer.
            UnsupportedByBroker: The broker does not support the request.
            KeyError: The cluster does not list the broker.
        """
        request = ListPartitionReassignmentsRequest(self._timeout_ms, [])
        response = await self._router.to_node(node_id, _LIST, request)
        return error_code(response.error_code) is ErrorCode.NOT_CONTROLLER

    async def elect(
        self, kind: ElectionType, partitions: Iterable[TopicPartition] | None = None
    ) -> Outcomes:
        """Elect leaders of partitions.

        Args:
            kind: Which replica to elect.
            partitions: The partitions; None (default) for all that need an election.

        Returns:
            For each partition None if a leader was elected, or why not: ELECTION_NOT_NEEDED if it
            has the wanted leader already.

        Raises:
            RequestRefused: The controller refused the whole request.
        """
        kind = ElectionType(kind)
        topics: list[TopicPartitions] | None = None
        if partitions is not None:
            topics = [TopicPartitions(name, list_) for name, list_ in by_topic(partitions).items()]
        request = ElectLeadersRequest(kind, topics, self._timeout_ms)
        response = await self._router.to_controller(_ELECT, request, _check)
        return {
            where: _refusal(part.error_code, part.error_message, where)
            for answer in response.replica_election_results
            for part in answer.partition_result
            for where in [TopicPartition(answer.topic, part.partition_id)]
        }


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partition numbers by topic, each once, in order of appearance."""
    topics: dict[str, list[int]] = {}
    for where in partitions_of(partitions):
        topics.setdefault(where.topic, []).append(where.partition)
    return topics


def spread(brokers: Sequence[int], replica_count: int, partitions: int) -> list[list[int]]:
    """Place replicas: the first replica moves on by one broker for each partition and the others
    follow it, so that all brokers lead and hold equally many (requirement REP-04)."""
    nodes = sorted(brokers)
    assert 0 < replica_count <= len(nodes)
    return [
        [nodes[(index + place) % len(nodes)] for place in range(replica_count)]
        for index in range(partitions)
    ]


def _check(
    response: AlterPartitionReassignmentsResponse
    | ListPartitionReassignmentsResponse
    | ElectLeadersResponse,
    connection: Connection,
) -> None:
    code = error_code(response.error_code)
    if code is not ErrorCode.NONE:
        message = getattr(response, "error_message", None)
        raise RequestRefused(code, message, broker=str(connection.address))


def _refusal(code: int, message: str | None, where: TopicPartition) -> RequestRefused | None:
    found = error_code(code)
    if found is ErrorCode.NONE:
        return None
    return RequestRefused(found, message, topic=where.topic, partition=where.partition)
