"""Requests about groups, and their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.records.arguments import partitions_of
from ottla.client.records.committed import Committed
from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, read_assignment
from ottla.protocol.errors import ErrorCode, RemoteProtocolError, error_code
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.api import declare
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.protocol.messages.consumer_group_describe import Member
    from ottla.wire.connection import Connection

LIST_GROUPS = declare(ApiKey.LIST_GROUPS, ListGroupsRequest, ListGroupsResponse)
DESCRIBE_GROUPS = declare(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest, DescribeGroupsResponse)
CONSUMER_GROUP_DESCRIBE = declare(
    ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
)
DELETE_GROUPS = declare(ApiKey.DELETE_GROUPS, DeleteGroupsRequest, DeleteGroupsResponse)
OFFSET_DELETE = declare(ApiKey.OFFSET_DELETE, OffsetDeleteRequest, OffsetDeleteResponse)
# 9 and 10 are for members of groups of the newer protocol, and name topics by id.
OFFSET_COMMIT = declare(ApiKey.OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitResponse, 2, 8)
# 8 asks for several groups at once. 2 is the first that can ask for all topics.
OFFSET_FETCH = declare(ApiKey.OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse, 2, 7)
# The first version that can wait for open transactions (KIP-447).
STABLE_OFFSET_FETCH = declare(ApiKey.OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse, 7, 7)
NO_GENERATION = -1


class GroupListing(NamedTuple):
    """One entry of the list. ``kind`` is "classic", "consumer", or "" if the broker is too old."""

    group_id: str
    kind: str
    protocol_type: str
    state: str


class MemberView(NamedTuple):
    """One member; ``partitions`` is None if its assignment is not in the consumer protocol.

    ``member_epoch`` is -1 and ``moving_to`` empty in classic groups."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...] | None
    member_epoch: int = -1
    moving_to: tuple[TopicPartition, ...] = ()


class GroupView(NamedTuple):
    """One group as its coordinator sees it; ``protocol`` is the name of the assignor."""

    group_id: str
    kind: str
    state: str
    protocol: str
    coordinator_id: int
    members: tuple[MemberView, ...]


def refused(number: int, group_id: str, connection: Connection, message: str | None = None) -> None:
    """Raise GroupRefused unless the code is NONE."""
    code = error_code(number)
    if code is not ErrorCode.NONE:
        raise GroupRefused(code, group_id, message, str(connection.address))


class GroupRefused(RequestRefused):
    """A broker refused a request about a group."""

    def __init__(
        self, code: ErrorCode, group_id: str, message: str | None = None, broker: str | None = None
    ) -> None:
        super().__init__(code, message, broker=broker)
        self.group_id = group_id

    def __str__(self) -> str:
        return f"group {self.group_id!r}: {super().__str__()}"


def listings(response: ListGroupsResponse) -> list[GroupListing]:
    """Return the groups of one broker."""
    return [
        GroupListing(group.group_id, group.group_type, group.protocol_type, group.group_state)
        for group in response.groups
    ]


def classic_view(
    response: DescribeGroupsResponse, node_id: int, connection: Connection
) -> GroupView:
    """Return the only group of the answer. Raises GroupRefused."""
    (group,) = response.groups
    refused(group.error_code, group.group_id, connection, group.error_message)
    if group.group_state == "Dead":
        # Before version 6 a group that does not exist is described like this.
        raise GroupRefused(ErrorCode.GROUP_ID_NOT_FOUND, group.group_id)
    members = tuple(_classic_member(member, group.protocol_type) for member in group.members)
    return GroupView(
        group.group_id, "classic", group.group_state, group.protocol_data, node_id, members
    )


def _classic_member(member: DescribedGroupMember, protocol_type: str) -> MemberView:
    partitions: tuple[TopicPartition, ...] | None = None
    if protocol_type == PROTOCOL_TYPE:
        try:
            assignment, _ = read_assignment(member.member_assignment)
            partitions = tuple(
                TopicPartition(owned.topic, number)
                for owned in assignment.assigned_partitions
                for number in owned.partitions
            )
        except RemoteProtocolError:
            # The assignment is empty while the group rebalances.
            partitions = () if not member.member_assignment else None
    return MemberView(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        partitions,
    )


def consumer_view(
    response: ConsumerGroupDescribeResponse, node_id: int, connection: Connection
) -> GroupView:
    """Return the only group of the answer. Raises GroupRefused."""
    (group,) = response.groups
    refused(group.error_code, group.group_id, connection, group.error_message)
    return GroupView(
        group.group_id,
        "consumer",
        group.group_state,
        group.assignor_name,
        node_id,
        tuple(_consumer_member(member) for member in group.members),
    )


def _consumer_member(member: Member) -> MemberView:
    held, wanted = (
        tuple(
            TopicPartition(topic.topic_name, number)
            for topic in assignment.topic_partitions
            for number in topic.partitions
        )
        for assignment in (member.assignment, member.target_assignment)
    )
    moving_to = () if set(held) == set(wanted) else wanted
    return MemberView(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        held,
        member.member_epoch,
        moving_to,
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, in order of first appearance."""
    topics: dict[str, list[int]] = {}
    for where in partitions_of(partitions):
        topics.setdefault(where.topic, []).append(where.partition)
    return topics


def fetch_request(
    group_id: str, partitions: Iterable[TopicPartition] | None, *, require_stable: bool
) -> OffsetFetchRequest:
    """Build the request for some positions of a group, or for all."""
    topics = None
    if partitions is not None:
        wanted = by_topic(partitions)
        topics = [OffsetFetchRequestTopic(topic, numbers) for topic, numbers in wanted.items()]
    return OffsetFetchRequest(group_id, topics, require_stable=require_stable)


def committed_offsets(
    response: OffsetFetchResponse, group_id: str, connection: Connection
) -> dict[TopicPartition, Committed]:
    """Return the positions that exist. Raises GroupRefused, also for the error of one partition."""
    refused(response.error_code, group_id, connection)
    found = {}
    for topic in response.topics:
        for part in topic.partitions:
            refused(part.error_code, group_id, connection)
            if part.committed_offset >= 0:
                found[TopicPartition(topic.name, part.partition_index)] = Committed(
                    part.committed_offset, part.committed_leader_epoch, part.metadata or ""
                )
    return found


def commit_request(
    group_id: str, offsets: Mapping[TopicPartition, Committed]
) -> OffsetCommitRequest:
    """Build the commit of a client that is no member: the group must be empty."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for where, committed in offsets.items():
        topic = topics.setdefault(where.topic, OffsetCommitRequestTopic(where.topic))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                where.partition,
                committed.offset,
                committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id, generation_id_or_member_epoch=NO_GENERATION, topics=list(topics.values())
    )


def delete_offsets_request(
    group_id: str, partitions: Iterable[TopicPartition]
) -> OffsetDeleteRequest:
    """Build the request to delete some positions."""
    return OffsetDeleteRequest(
        group_id,
        [
            OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(one) for one in numbers])
            for topic, numbers in by_topic(partitions).items()
        ],
    )


def results_by_partition(
    response: OffsetCommitResponse | OffsetDeleteResponse, connection: Connection
) -> dict[TopicPartition, RequestRefused | None]:
    """Return None for each success, and the error otherwise."""
    results: dict[TopicPartition, RequestRefused | None] = {}
    for topic in response.topics:
        for part in topic.partitions:
            where, code = TopicPartition(topic.name, part.partition_index), part.error_code
            results[where] = (
                None
                if code == ErrorCode.NONE
                else RequestRefused.for_partition(error_code(code), where, str(connection.address))
            )
    return results
