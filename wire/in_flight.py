"""Keeps the unanswered requests of one connection, oldest first. Pure.

A broker answers the requests of a connection in order, each exactly once. An unsolicited answer, or
one out of order, means that both sides disagree about the bytes on the wire, so the connection
cannot be used any further (hazard N-08).
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import RemoteProtocolError

Waiter = TypeVar("Waiter")

CORRELATION_ID_LAST = 2**31 - 1


@dataclass(slots=True)
class InFlightRequest(Generic[Waiter]):
    """One request on the wire. ``start_position`` counts the connection's bytes before it.

    Its ``timeout_ms`` restarts with each progress of the connection: a request that waits behind
    others on a slow link is not late before they are."""

    correlation_id: int
    api_key: int
    api_version: int
    made_ms: float
    timeout_ms: float
    start_position: int
    waiter: Waiter


class InFlight(Generic[Waiter]):
    """The queue itself. ``Waiter`` is the owner's type, returned with the answer."""

    __slots__ = ("_waiting", "next_correlation_id")

    def __init__(self) -> None:
        self._waiting: deque[InFlightRequest[Waiter]] = deque()
        # The correlation id of the next request.
        self.next_correlation_id = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: InFlightRequest[Waiter]) -> None:
        """Add a request that was queued for sending with the next correlation id."""
        assert waiting.correlation_id == self.next_correlation_id
        self._waiting.append(waiting)
        self.pass_number()

    def pass_number(self) -> None:
        """Skip a correlation id, which a request without an answer (Produce with acks=0) uses."""
        last = self.next_correlation_id == CORRELATION_ID_LAST
        self.next_correlation_id = 0 if last else self.next_correlation_id + 1

    def oldest(self) -> InFlightRequest[Waiter] | None:
        return self._waiting[0] if self._waiting else None

    def answered(self, correlation_id: int) -> InFlightRequest[Waiter]:
        """Take out the request that this answer belongs to, which must be the oldest.

        Raises RemoteProtocolError."""
        if not self._waiting:
            raise RemoteProtocolError(f"answer {correlation_id}, to no request")
        oldest = self._waiting[0]
        if oldest.correlation_id != correlation_id:
            raise RemoteProtocolError(
                f"answer {correlation_id} arrived while {oldest.correlation_id} was due"
            )
        return self._waiting.popleft()

    def next_deadline_ms(self, moved_ms: float) -> float | None:
        """The earliest deadline if the last progress was at ``moved_ms``; None without requests. A
        later request may have the earlier deadline."""
        if not self._waiting:
            return None
        return min(max(one.made_ms, moved_ms) + one.timeout_ms for one in self._waiting)

    def overdue(self, now_ms: float, moved_ms: float) -> InFlightRequest[Waiter] | None:
        """The oldest overdue request, if the last progress was at ``moved_ms``."""
        for waiting in self._waiting:
            if max(waiting.made_ms, moved_ms) + waiting.timeout_ms <= now_ms:
                return waiting
        return None

    def drain(self) -> list[InFlightRequest[Waiter]]:
        """Remove and return all, oldest first, after the connection closed."""
        drained = list(self._waiting)
        self._waiting.clear()
        return drained
