"""How long this broker may consider itself leader: two thirds of the store session's timeout.

The lease counts from the last answer that proved the session alive, whatever state the session
shows: a suspended session is in doubt, and a process that was paused learns of that too late
(hazards R-19, C-06, P-02). The broker refuses writes that could be lost a third of the timeout
before the store could let another broker be elected. HOT: an append reads only ``until_ms``.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ottla.coordinator.store.store import SessionState

if TYPE_CHECKING:
    from ottla.coordinator.store.store import MetadataSession

SAFE_PART = 2 / 3
# How long a check of the session is valid, ms.
BELIEF_MS = 100.0


class Lease:
    """Owned by the server, which passes it each new session at once.

    ``term`` counts the sessions. The present session does not prove a leadership that was given in
    an earlier one: the controller may have taken it away in between."""

    __slots__ = ("_session", "term", "until_ms")

    def __init__(self, until_ms: float = -inf) -> None:
        self._session: MetadataSession | None = None
        self.term = 0
        # Appends need not check before this time; it is not the end of the lease.
        self.until_ms = until_ms

    def enter(self, session: MetadataSession) -> None:
        """A new session has begun; the broker is about to register in it."""
        self._session = session
        self.term += 1
        self.until_ms = -inf
        # Only sets a number (C-05).
        session.on_state(self._on_state)

    def holds(self, now_ms: float) -> bool:
        """Whether the session was proved alive recently enough."""
        if now_ms < self.until_ms:
            return True
        session = self._session
        if session is None or session.state is SessionState.LOST:
            return False
        end_ms = session.last_answer_ms + SAFE_PART * session.timeout_ms
        self.until_ms = min(end_ms, now_ms + BELIEF_MS)
        return now_ms < end_ms

    def _on_state(self, _state: SessionState) -> None:
        self.until_ms = -inf


def endless_lease() -> Lease:
    """Return the lease of a broker without a store, which never expires."""
    return Lease(inf)
