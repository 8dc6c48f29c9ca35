"""Where replicas are and who leads: moves of replicas (KIP-455) and elections (KIP-460).

All of it is asked of the controller. One result for each partition, so that one refusal does not
hide the successes; what concerns the request as a whole is raised.
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
    """Whom to elect: the first replica of each partition, or, when nobody in sync is left,
    anybody alive, at the price of records that only others have."""

    PREFERRED = 0
    UNCLEAN = 1


class Move(NamedTuple):
    """A move of replicas under way: all present replicas, those to come and those to go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Placements:
    """What an Admin does about replicas and leaders."""

    def __init__(self, router: Router, timeout_ms: int) -> None:
        self._router = router
        self._timeout_ms = timeout_ms

    async def move(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> Outcomes:
        """Begin to move each partition to those brokers, the preferred leader first; None stops
        a move and goes back. The value is None where it was begun. Raises RequestRefused."""
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
    ) -> dict[TopicPartition, Move]:
        """The moves under way, of these partitions or of all. Raises RequestRefused."""
        topics: list[ListPartitionReassignmentsTopics] | None = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(topic, indexes)
                for topic, indexes in by_topic(partitions).items()
            ]
        request = ListPartitionReassignmentsRequest(self._timeout_ms, topics)
        response = await self._router.to_controller(_LIST, request, _check)
        return {
            TopicPartition(topic.name, part.partition_index): Move(
                tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
            )
            for topic in response.topics
            for part in topic.partitions
        }

    async def has_resigned(self, node_id: int) -> bool:
        """Whether a broker that is listed as the controller says that it is not.

        Raises TransportError, UnsupportedByBroker, KeyError for a broker that is not listed."""
        request = ListPartitionReassignmentsRequest(self._timeout_ms, [])
        response = await self._router.to_node(node_id, _LIST, request)
        return error_code(response.error_code) is ErrorCode.NOT_CONTROLLER

    async def elect(
        self, kind: ElectionType, partitions: Iterable[TopicPartition] | None = None
    ) -> Outcomes:
        """Elect leaders of these partitions, or of all that need it; None where one was elected.

        ELECTION_NOT_NEEDED is what a partition answers that has the leader already. Raises
        RequestRefused."""
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
    """Partition numbers by topic, each once, in order of appearance."""
    topics: dict[str, list[int]] = {}
    for where in partitions_of(partitions):
        topics.setdefault(where.topic, []).append(where.partition)
    return topics


def spread(brokers: Sequence[int], replica_count: int, partitions: int) -> list[list[int]]:
    """Replicas for each partition: the first moves on by one broker each time, the others follow
    it, so that every broker leads and holds as much as any other (requirement REP-04)."""
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
