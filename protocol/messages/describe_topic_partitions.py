"""DescribeTopicPartitions (key 75), version 0: topics page by page (KIP-966).

Flexible from the start.
"""

from ottla.protocol.ids import Uuid
from ottla.protocol.schema import (
    WireType,
    array,
    boolean,
    int16,
    int32,
    message,
    one,
    string,
    struct,
    uuid,
)


@struct
class TopicRequest:
    name: str = string()


@struct
class Cursor:
    topic_name: str = string()
    partition_index: int = int32()


@message("0", flexible="0+")
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = one(Cursor, nullable="0+", default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    replica_nodes: list[int] = array(WireType.INT32)
    isr_nodes: list[int] = array(WireType.INT32)
    eligible_leader_replicas: list[int] | None = array(WireType.INT32, nullable="0+", default=None)
    last_known_elr: list[int] | None = array(WireType.INT32, nullable="0+", default=None)
    offline_replicas: list[int] = array(WireType.INT32, ignorable=True)


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: Uuid = uuid(ignorable=True)
    is_internal: bool = boolean(ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(default=-2147483648)


@message("0", flexible="0+")
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = one(Cursor, nullable="0+", default=None)
