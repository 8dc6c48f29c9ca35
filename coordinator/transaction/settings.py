"""The broker settings of the transaction coordinator, with Kafka's names."""

from __future__ import annotations

from ottla.protocol.data_classes import dataclass

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Times in milliseconds."""

    # transaction.max.timeout.ms: no producer may ask for more.
    max_timeout_ms: int = 900_000
    # transactional.id.expiration.ms: idle for that long, an id is forgotten.
    expiration_ms: int = 7 * DAY_MS
    # transaction.remove.expired.transaction.cleanup.interval.ms
    expiry_check_interval_ms: int = 3_600_000
    # transaction.abort.timed.out.transaction.cleanup.interval.ms
    timeout_check_interval_ms: int = 10_000
    # Largest value of one record: message.max.bytes of the internal topic bounds it.
    max_record_bytes: int = 1_000_000
