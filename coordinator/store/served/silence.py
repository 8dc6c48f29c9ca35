"""Pure. Decides which sessions of other processes have timed out.

The server counts a session's silence from the last message that arrived, the owner from the moment
when it sent that message: the owner knows of the end before the store acts on it (C-06).
"""

from __future__ import annotations

from ottla.protocol.data_classes import dataclass

# Checks within the shortest timeout.
LOOKS = 10


@dataclass(slots=True)
class _Heard:
    timeout_ms: int
    heard_ms: float


class Silence:
    """Owned by the server of one store. All times are of one monotonic clock."""

    def __init__(self, now_ms: float) -> None:
        self._sessions: dict[int, _Heard] = {}
        self._looked_ms = now_ms

    def begin(self, session_id: int, timeout_ms: int, now_ms: float) -> None:
        """A session was opened."""
        assert session_id not in self._sessions
        assert timeout_ms > 0
        self._sessions[session_id] = _Heard(timeout_ms, now_ms)

    def hear(self, session_id: int, now_ms: float) -> None:
        """A message of the session has arrived; a session that has timed out stays so."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.heard_ms = now_ms

    def end(self, session_id: int) -> None:
        """The session is over."""
        self._sessions.pop(session_id, None)

    def interval_ms(self) -> float:
        """How often to look."""
        shortest = min((one.timeout_ms for one in self._sessions.values()), default=1_000)
        return max(shortest / LOOKS, 1.0)

    def expired(self, now_ms: float, interval_ms: float) -> list[int]:
        """Return the sessions that have timed out; the caller ends them.

        After a delay, as when the process was suspended, messages may have arrived that are not yet
        read; therefore each session gets its whole timeout again (P-02)."""
        late_ms = now_ms - self._looked_ms - interval_ms
        self._looked_ms = now_ms
        if late_ms > interval_ms:
            for session in self._sessions.values():
                session.heard_ms = now_ms
        return [
            session_id
            for session_id, session in self._sessions.items()
            if now_ms - session.heard_ms >= session.timeout_ms
        ]
