"""ListTransactions (key 66), versions 0-2: the transactions coordinated here (KIP-664).

1 filters by age (KIP-994), 2 by a pattern (KIP-1152).
"""

from ottla.protocol.schema import WireType, array, int16, int32, int64, message, string, struct


@message("0-2", flexible="0+")
class ListTransactionsRequest:
    state_filters: list[str] = array(WireType.STRING)
    producer_id_filters: list[int] = array(WireType.INT64)
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


@struct
class TransactionState:
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@message("0-2", flexible="0+")
class ListTransactionsResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(WireType.STRING)
    transaction_states: list[TransactionState] = array(TransactionState)
