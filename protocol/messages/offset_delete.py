"""OffsetDelete (key 47), version 0: remove a group's positions (KIP-496).

Never flexible.
"""

from ottla.protocol.schema import array, int16, int32, message, string, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: int = int32()


@struct
class OffsetDeleteRequestTopic:
    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@message("0")
class OffsetDeleteRequest:
    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@struct
class OffsetDeleteResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetDeleteResponseTopic:
    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@message("0")
class OffsetDeleteResponse:
    error_code: int = int16()
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
