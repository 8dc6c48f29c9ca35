"""ListOffsets (key 2), versions 0-11: offsets by timestamp, first and last included.

0 returned a list of offsets; 1 returns one with its timestamp (KIP-79), 2 knows isolation levels
(KIP-98), 4 leader epochs (KIP-320), 6 is flexible, 7 asks for the largest timestamp (KIP-734), 8
and 9 for offsets of tiered storage (KIP-405, KIP-1005), 10 has a timeout (KIP-1075), 11 asks for
the earliest pending upload.
"""

from ottla.protocol.schema import (
    WireType,
    array,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
)


@struct
class ListOffsetsPartition:
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64()
    max_num_offsets: int = int32("0", default=1)


@struct
class ListOffsetsTopic:
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@message("0-11", flexible="6+")
class ListOffsetsRequest:
    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+", ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    old_style_offsets: list[int] = array(WireType.INT64, "0")
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@message("0-11", flexible="6+")
class ListOffsetsResponse:
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
