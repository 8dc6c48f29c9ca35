"""Requests about a member's own positions, and their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.group.requests import NO_GENERATION
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.api import declare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.group.identity import GroupIdentity
    from ottla.client.records.committed import Committed

# 9 is the first for members of the newer protocol (KIP-848); 10 names topics by id.
MEMBER_OFFSET_COMMIT = declare(
    ApiKey.OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitResponse, 2, 9
)


def member_commit_request(
    member: GroupIdentity, offsets: Mapping[TopicPartition, Committed]
) -> OffsetCommitRequest:
    """Build a commit in the name of a member; without a member the group has to be empty."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for where, position in sorted(offsets.items()):
        topic = topics.setdefault(where.topic, OffsetCommitRequestTopic(where.topic))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                where.partition,
                position.offset,
                position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    is_member = member.is_member
    return OffsetCommitRequest(
        member.group_id,
        generation_id_or_member_epoch=member.generation if is_member else NO_GENERATION,
        member_id=member.member_id if is_member else "",
        group_instance_id=member.instance_id if is_member else None,
        topics=list(topics.values()),
    )


def codes_by_partition(response: OffsetCommitResponse) -> dict[TopicPartition, ErrorCode]:
    """Return the error code of each partition."""
    return {
        TopicPartition(topic.name, part.partition_index): error_code(part.error_code)
        for topic in response.topics
        for part in topic.partitions
    }
