"""Answers of a KIP-848 group, none of which shows what could still vanish (hazard G-03)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.coordinator.group.failures import answer_to
from ottla.coordinator.group.outbox import Continuation
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.coordinator.group.effects import LogRecord, Ticket
    from ottla.coordinator.group.outbox import Outbox


class _Waiting(NamedTuple):
    ticket: Ticket
    response: Any
    refuse: Callable[[ErrorCode], Any]


class Replies:
    """The group changes its memory as it appends, so every answer tells of appended records.

    An answer therefore leaves when all that was appended before it is committed, also one that
    brought no records itself: else a member could act on what the next coordinator never knew."""

    def __init__(self, outbox: Outbox, on_lost: Callable[[], object]) -> None:
        self._outbox = outbox
        self._on_lost = on_lost
        # One list per append that is not committed, in order: appends are committed in order.
        self._open: list[list[_Waiting]] = []

    def append(self, records: Sequence[LogRecord]) -> None:
        """Write; what is sent from now on waits for it."""
        waiting: list[_Waiting] = []
        self._open.append(waiting)
        self._outbox.append(
            records,
            Continuation(
                on_committed=lambda: self._on_committed(waiting),
                on_failed=lambda error: self._on_failed(waiting, error),
                on_overdue=lambda: self._refuse(waiting, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            ),
        )

    def send(self, ticket: Ticket, response: Any, refuse: Callable[[ErrorCode], Any]) -> None:
        """Answer as soon as that may be; ``refuse`` makes the answer if it never may."""
        if self._open:
            self._open[-1].append(_Waiting(ticket, response, refuse))
        else:
            self._outbox.answer(ticket, response)

    def refuse_all(self, error: ErrorCode) -> None:
        """The shard ends here."""
        for waiting in self._open:
            self._refuse(waiting, error)

    def _on_committed(self, waiting: list[_Waiting]) -> None:
        # Whoever is asked to commit out of order would break the promise above silently.
        assert self._open[0] is waiting, "appends are committed in the order they were made"
        del self._open[0]
        for ticket, response, _refuse in waiting:
            self._outbox.answer(ticket, response)

    def _on_failed(self, waiting: list[_Waiting], error: ErrorCode) -> None:
        self._open = [other for other in self._open if other is not waiting]
        self._refuse(waiting, error)
        self._on_lost()

    def _refuse(self, waiting: list[_Waiting], error: ErrorCode) -> None:
        for ticket, _response, refuse in waiting:
            self._outbox.answer(ticket, refuse(answer_to(error)))
        waiting.clear()
