"""OffsetForLeaderEpoch (key 23), versions 0-4: where a leader epoch ends (KIP-101).

1 returns the epoch found, 2 fences by the current epoch (KIP-320), 3 tells consumers from followers
(KIP-392), 4 is flexible.
"""

from ottla.protocol.schema import array, int16, int32, int64, message, string, struct


@struct
class OffsetForLeaderPartition:
    partition: int = int32()
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    leader_epoch: int = int32()


@struct
class OffsetForLeaderTopic:
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@message("0-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@struct
class EpochEndOffset:
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32("1+", default=-1, ignorable=True)
    end_offset: int = int64(default=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


@message("0-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
