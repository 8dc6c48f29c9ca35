"""AddOffsetsToTxn (key 25), versions 0-4: a group's offsets join a transaction (KIP-98).

3 is flexible, 4 allows TRANSACTION_ABORTABLE (KIP-890).
"""

from ottla.protocol.schema import int16, int32, int64, message, string


@message("0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@message("0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
