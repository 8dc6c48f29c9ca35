"""Decides when a rebalance is retried, and when it has failed. Pure."""

from __future__ import annotations

from ottla.protocol.named_tuples import NamedTuple


class RebalanceSettings(NamedTuple):
    """``rebalance.max.retries`` and ``rebalance.backoff.ms``."""

    retries_max: int = 4
    backoff_ms: float = 2_000


DEFAULTS = RebalanceSettings()


class RebalanceAttempts:
    """The attempts of one rebalance."""

    __slots__ = ("_failures", "_settings")

    def __init__(self, settings: RebalanceSettings) -> None:
        self._settings = settings
        self._failures = 0

    def failed(self) -> float | None:
        """Count a failed attempt; return the wait in milliseconds, or None to give up."""
        self._failures += 1
        return None if self._failures > self._settings.retries_max else self._settings.backoff_ms

    def changed(self) -> None:
        """The group has changed: count the attempts anew."""
        self._failures = 0
