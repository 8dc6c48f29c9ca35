"""Peers that speak something else than their listener does: said once for each address."""

from __future__ import annotations

import logging

from ottla.wire.tls.failures import spoken

logger = logging.getLogger("ottla.network")

# Addresses and reasons that are remembered; then all is forgotten, and said once more.
REMEMBERED_MAX = 1_000


class Strangers:
    """Keeps a port scan or a client with wrong settings from filling the log."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str, str]] = set()

    def tell(self, listener: str, host: str, reason: str) -> None:
        """Log why a connection of that address was closed, unless it was logged before."""
        key = (listener, host, reason)
        if key in self._told:
            return
        if len(self._told) >= REMEMBERED_MAX:
            self._told.clear()
        self._told.add(key)
        logger.warning(
            "the listener %s closed a connection of %s: %s (logged once)", listener, host, reason
        )

    def look(self, listener: str, host: str, first: bytes) -> None:
        """A connection of a plaintext listener begins with these bytes, which are no request."""
        what = spoken(first)
        if what in ("TLS", "HTTP", "SSH"):
            reason = f"it speaks {what}, not Kafka's protocol"
            if what == "TLS":
                reason += "; clients of this listener set security.protocol to PLAINTEXT"
            self.tell(listener, host, reason)
