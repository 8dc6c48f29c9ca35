"""Produce (key 0), versions 0-13: append record batches.

0-2 carry message sets of formats 0 and 1; 3 carries one batch of format 2 and a transactional id
(KIP-98); 5 adds the log start offset, 7 allows zstd (KIP-110), 8 names the refused records
(KIP-467), 9 is flexible, 10 tells the new leader (KIP-951), 11 allows TRANSACTION_ABORTABLE and 12
adds partitions to transactions on the way (both KIP-890), 13 names topics by id (KIP-516).
"""

from ottla.protocol.ids import Uuid
from ottla.protocol.schema import (
    Records,
    array,
    int16,
    int32,
    int64,
    message,
    one,
    record_set,
    string,
    struct,
    uuid,
)


@struct
class PartitionProduceData:
    index: int = int32()
    records: Records | None = record_set(nullable="0+")


@struct
class TopicProduceData:
    name: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message("0-13", flexible="9+")
class ProduceRequest:
    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@struct
class BatchIndexAndErrorMessage:
    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


@struct
class PartitionProduceResponse:
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, "8+", ignorable=True
    )
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = one(LeaderIdAndEpoch, "10+", tag=0)


@struct
class TopicProduceResponse:
    name: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@struct
class NodeEndpoint:
    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", nullable="10+", default=None)


@message("0-13", flexible="9+")
class ProduceResponse:
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
