"""EndTxn (key 26), versions 0-5: commit or abort a transaction (KIP-98).

3 is flexible, 4 allows TRANSACTION_ABORTABLE, 5 returns the raised producer epoch (both KIP-890).
"""

from ottla.protocol.schema import boolean, int16, int32, int64, message, string


@message("0-5", flexible="3+")
class EndTxnRequest:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@message("0-5", flexible="3+")
class EndTxnResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
