"""The values of ``__consumer_offsets`` in all versions, as Kafka declares them.

Offset commits and classic groups have versions; the flexible version 4 of both is never written,
so that an older coordinator can take over. The records of KIP-848 are flexible from their version
0 and grow only by tagged fields (KIP-915). The keys, and the value type of each, are in records.py.
"""

from ottla.protocol.ids import Uuid
from ottla.protocol.schema import (
    WireType,
    array,
    blob,
    int8,
    int32,
    int64,
    message,
    one,
    string,
    struct,
    uuid,
)


@message("0-4", flexible="4+")
class OffsetCommitValue:
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: Uuid = uuid("4+", tag=0, ignorable=True)


@struct
class MemberMetadata:
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = blob()
    assignment: bytes = blob()


@message("0-4", flexible="4+")
class GroupMetadataValue:
    """A classic group; ``current_state_timestamp`` is wall clock milliseconds."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+", default=None)
    leader: str | None = string(nullable="0+", default=None)
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)


@message("0", flexible="0+")
class ConsumerGroupMetadataValue:
    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


@struct
class PartitionMetadata:
    partition: int = int32()
    racks: list[str] = array(WireType.STRING)


@struct
class TopicMetadata:
    topic_id: Uuid = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


@message("0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """Read only: the group's metadata hash has replaced it (KIP-1101)."""

    topics: list[TopicMetadata] = array(TopicMetadata)


@struct
class ClassicProtocol:
    name: str = string()
    metadata: bytes = blob()


@struct
class ClassicMemberMetadata:
    """A member of a consumer group that speaks the classic protocol."""

    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


@message("0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(WireType.STRING)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+", default=None)
    classic_member_metadata: ClassicMemberMetadata | None = one(
        ClassicMemberMetadata, nullable="0+", default=None, tag=0
    )


@message("0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


@struct
class TargetTopicPartitions:
    topic_id: Uuid = uuid()
    partitions: list[int] = array(WireType.INT32)


@message("0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TargetTopicPartitions] = array(TargetTopicPartitions)


@struct
class CurrentTopicPartitions:
    """``assignment_epochs``: the epoch at which the member got each partition."""

    topic_id: Uuid = uuid()
    partitions: list[int] = array(WireType.INT32)
    assignment_epochs: list[int] | None = array(WireType.INT32, nullable="0+", default=None, tag=0)


@message("0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[CurrentTopicPartitions] = array(CurrentTopicPartitions)
    partitions_pending_revocation: list[CurrentTopicPartitions] = array(CurrentTopicPartitions)


@message("0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    """The topics that a regular expression matched at that version of the cluster's metadata."""

    topics: list[str] = array(WireType.STRING)
    version: int = int64()
    timestamp: int = int64()
