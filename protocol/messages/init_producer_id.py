"""InitProducerId (key 22), versions 0-5: give a producer its id and epoch (KIP-98).

2 is flexible, 3 lets a producer keep its id with a raised epoch (KIP-360), 4 allows PRODUCER_FENCED
(KIP-588), 5 allows TRANSACTION_ABORTABLE (KIP-890).
"""

from ottla.protocol.schema import int16, int32, int64, message, string


@message("0-5", flexible="2+")
class InitProducerIdRequest:
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


@message("0-5", flexible="2+")
class InitProducerIdResponse:
    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
