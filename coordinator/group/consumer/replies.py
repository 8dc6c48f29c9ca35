"""Answers of a KIP-848 group, none of which shows what could still vanish (hazard G-03)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.coordinator.failures import answer_to
from ottla.coordinator.outbox import Continuation
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.coordinator.effects import LogRecord, Ticket
    from ottla.coordinator.outbox import Outbox


class _Open:
    """An append that is not committed, and who waits for it."""

    __slots__ = ("is_overdue", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Callable[[ErrorCode], object]] = []
        self.is_overdue = False

    def tell(self, error: ErrorCode) -> None:
        waiting, self.waiting = self.waiting, []
        for deliver in waiting:
            deliver(error)


class Replies:
    """The group changes its memory as it appends, so every answer tells of appended records.

    An answer therefore leaves when all that was appended before it is committed, also one that
    brought no records itself: else a member could act on what the next coordinator never knew."""

    def __init__(self, outbox: Outbox, on_lost: Callable[[], object]) -> None:
        self._outbox = outbox
        self._on_lost = on_lost
        # In order: appends are committed in the order they were made.
        self._open: list[_Open] = []

    def append(self, records: Sequence[LogRecord]) -> None:
        """Write; what is sent from now on waits for it."""
        append = _Open()
        self._open.append(append)
        self._outbox.append(
            records,
            Continuation(
                on_committed=lambda: self._on_committed(append),
                on_failed=lambda error: self._on_failed(append, error),
                on_overdue=lambda: self._on_overdue(append),
            ),
        )

    def send(self, ticket: Ticket, response: Any, refuse: Callable[[ErrorCode], Any]) -> None:
        """Answer as soon as that may be; ``refuse`` makes the answer if it never may."""
        if not self._open:
            self._outbox.answer(ticket, response)
            return

        def deliver(error: ErrorCode) -> None:
            is_refused = error is not ErrorCode.NONE
            self._outbox.answer(ticket, refuse(error) if is_refused else response)

        self.when_committed(deliver)

    def when_committed(self, deliver: Callable[[ErrorCode], object]) -> None:
        """Call with NONE once all that is appended by now is committed, or with an error that a
        client understands. Now, if there is nothing to wait for."""
        if not self._open:
            deliver(ErrorCode.NONE)
        elif self._open[-1].is_overdue:
            # Its waiting time was over before this one's began, and nobody counts it again.
            deliver(answer_to(ErrorCode.REQUEST_TIMED_OUT))
        else:
            self._open[-1].waiting.append(deliver)

    def refuse_all(self, error: ErrorCode) -> None:
        """The shard ends here."""
        for append in self._open:
            append.tell(answer_to(error))

    def _on_committed(self, append: _Open) -> None:
        # Whoever is asked to commit out of order would break the promise above silently.
        assert self._open[0] is append, "appends are committed in the order they were made"
        del self._open[0]
        append.tell(ErrorCode.NONE)

    def _on_failed(self, append: _Open, error: ErrorCode) -> None:
        self._open = [other for other in self._open if other is not append]
        append.tell(answer_to(error))
        self._on_lost()

    def _on_overdue(self, append: _Open) -> None:
        append.is_overdue = True
        append.tell(answer_to(ErrorCode.REQUEST_TIMED_OUT))
