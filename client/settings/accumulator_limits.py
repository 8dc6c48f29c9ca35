"""The limits of a producer's accumulator. Pure."""

from __future__ import annotations

from ottla.protocol.data_classes import dataclass


@dataclass(frozen=True, slots=True)
class AccumulatorLimits:
    """The limits of one accumulator.

    ``first_window`` is the number of batches in flight of a partition before its first batch is
    acknowledged. With ``waits_for_progress`` the delivery timeout restarts whenever a batch is
    acknowledged."""

    batch_bytes: int
    linger_ms: float
    memory_bytes_max: int
    request_bytes_max: int
    delivery_timeout_ms: float
    first_window: int
    waits_for_progress: bool = False
