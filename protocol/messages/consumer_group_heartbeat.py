"""ConsumerGroupHeartbeat (key 68), versions 0-1: join, be assigned, stay alive (KIP-848).

1 lets the client make its member id (KIP-1082) and subscribe by a regular expression.
"""

from ottla.protocol.ids import Uuid
from ottla.protocol.schema import WireType, array, int16, int32, message, one, string, struct, uuid


@struct
class TopicPartitions:
    topic_id: Uuid = uuid()
    partitions: list[int] = array(WireType.INT32)


@message("0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(WireType.STRING, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(
        TopicPartitions, nullable="0+", default=None
    )


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@message("0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = one(Assignment, nullable="0+", default=None)
