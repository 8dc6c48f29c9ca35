"""ConsumerGroupDescribe (key 69), versions 0-1: groups of the consumer protocol (KIP-848).

1 tells the type of each member (KIP-1099).
"""

from ottla.protocol.ids import Uuid
from ottla.protocol.schema import (
    WireType,
    array,
    boolean,
    int8,
    int16,
    int32,
    message,
    one,
    string,
    struct,
    uuid,
)


@message("0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    group_ids: list[str] = array(WireType.STRING)
    include_authorized_operations: bool = boolean()


@struct
class TopicPartitions:
    topic_id: Uuid = uuid()
    topic_name: str = string()
    partitions: list[int] = array(WireType.INT32)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@struct
class Member:
    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(WireType.STRING)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: Assignment = one(Assignment)
    target_assignment: Assignment = one(Assignment)
    member_type: int = int8("1+", default=-1, ignorable=True)


@struct
class DescribedGroup:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)


@message("0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
