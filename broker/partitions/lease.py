"""How long this broker may believe that it leads: two thirds of the store session's timeout.

Counted from the last answer that proved the session alive, whatever state the session shows: one
that is suspended is in doubt, and a process that was stopped hears of that too late (hazards R-19,
C-06, P-02). A third of the timeout before the store could give the leadership to another broker,
writes that could vanish are refused. HOT: ``until_ms`` is all that an append looks at.
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
    """Owned by the server; told of each session as soon as there is one.

    ``term`` counts the sessions. A leadership that was given in an earlier one is not proven by the
    present one: the controller may have taken it away in between."""

    __slots__ = ("_session", "term", "until_ms")

    def __init__(self, until_ms: float = -inf) -> None:
        self._session: MetadataSession | None = None
        self.term = 0
        # Until then appends need not ask; not the end of the lease.
        self.until_ms = until_ms

    def enter(self, session: MetadataSession) -> None:
        """A new session has begun, in which the broker is about to register."""
        self._session = session
        self.term += 1
        self.until_ms = -inf
        # A number is set and nothing else is done (C-05).
        session.on_state(self._on_state)

    def holds(self, now_ms: float) -> bool:
        """Whether the session was proven alive recently enough."""
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
    """Of a broker that no store can take anything from."""
    return Lease(inf)
