"""Computes retry delays: exponential, with jitter.

Pure: chance is an argument. Without the jitter every client that lost the same broker would
reconnect in the same millisecond and overload it again.
"""

from __future__ import annotations

from ottla.protocol.data_classes import dataclass

MULTIPLIER = 2.0
JITTER = 0.2
# More doublings reach any sane limit; the bound also keeps the power from overflowing.
DOUBLINGS_MAX = 30


@dataclass(frozen=True, slots=True)
class Backoff:
    """A range of delays, with the meaning of ``retry.backoff.ms`` and its ``.max.ms`` (KIP-580)."""

    initial_ms: float
    limit_ms: float

    def __post_init__(self) -> None:
        if not 0 <= self.initial_ms <= self.limit_ms:
            raise ValueError(
                f"a back-off goes from 0 or more up to its limit, not from {self.initial_ms} ms "
                f"to {self.limit_ms} ms"
            )

    def delay_ms(self, failures: int, chance: float) -> float:
        """The delay in ms after that many failures in a row; ``chance`` is uniform in [0, 1).

        0 without a failure. The jitter is up to a fifth in either direction, also at the limit."""
        assert failures >= 0
        assert 0.0 <= chance < 1.0
        if failures == 0:
            return 0.0
        doublings = min(failures - 1, DOUBLINGS_MAX)
        delay_ms = min(self.initial_ms * MULTIPLIER**doublings, self.limit_ms)
        return float(delay_ms * (1.0 - JITTER + 2.0 * JITTER * chance))
