"""DescribeTransactions (key 65), version 0: state of transactional ids (KIP-664).

Flexible from the start.
"""

from ottla.protocol.schema import WireType, array, int16, int32, int64, message, string, struct


@message("0", flexible="0+")
class DescribeTransactionsRequest:
    transactional_ids: list[str] = array(WireType.STRING)


@struct
class TopicData:
    topic: str = string()
    partitions: list[int] = array(WireType.INT32)


@struct
class TransactionState:
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


@message("0", flexible="0+")
class DescribeTransactionsResponse:
    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)
