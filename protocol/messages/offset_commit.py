"""OffsetCommit (key 8), versions 0-10: store a group's positions.

2 has one retention time for all, which 5 drops (KIP-211); 1 alone had timestamps. 6 adds leader
epochs (KIP-320), 7 static members (KIP-345), 8 is flexible, 9 serves the consumer protocol of
KIP-848, 10 names topics by id.
"""

from ottla.protocol.ids import Uuid
from ottla.protocol.schema import array, int16, int32, int64, message, string, struct, uuid


@struct
class OffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    commit_timestamp: int = int64("1", default=-1)
    committed_metadata: str | None = string(nullable="0+")


@struct
class OffsetCommitRequestTopic:
    name: str = string("0-9", ignorable=True)
    topic_id: Uuid = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@message("0-10", flexible="8+")
class OffsetCommitRequest:
    group_id: str = string()
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@struct
class OffsetCommitResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetCommitResponseTopic:
    name: str = string("0-9", ignorable=True)
    topic_id: Uuid = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@message("0-10", flexible="8+")
class OffsetCommitResponse:
    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
