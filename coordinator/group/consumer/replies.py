"""Sends responses of a KIP-848 group only when what they show is committed (hazard G-03)."""

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
    """An append that is not committed, and the callbacks that wait for it."""

    __slots__ = ("is_overdue", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Callable[[ErrorCode], object]] = []
        self.is_overdue = False

    def tell(self, error: ErrorCode) -> None:
        waiting, self.waiting = self.waiting, []
        for deliver in waiting:
            deliver(error)


class Replies:
    """Responses of one group. Its memory changes with the append, so each shows appended records.

    A response therefore waits until all earlier appends are committed, even if it appended nothing:
    otherwise a member could act on state that the next coordinator never had."""

    def __init__(self, outbox: Outbox, on_lost: Callable[[], object]) -> None:
        self._outbox = outbox
        self._on_lost = on_lost
        # Appends are committed in the order in which they were made.
        self._open: list[_Open] = []

    def append(self, records: Sequence[LogRecord]) -> None:
        """Append records; later responses wait for them."""
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
        """Answer once all appends are committed; ``refuse`` makes the response if they fail."""
        if not self._open:
            self._outbox.answer(ticket, response)
            return

        def deliver(error: ErrorCode) -> None:
            is_refused = error is not ErrorCode.NONE
            self._outbox.answer(ticket, refuse(error) if is_refused else response)

        self.when_committed(deliver)

    def when_committed(self, deliver: Callable[[ErrorCode], object]) -> None:
        """Call with NONE once all appends so far are committed, or with an error that clients
        understand. Calls at once if there is nothing to wait for."""
        if not self._open:
            deliver(ErrorCode.NONE)
        elif self._open[-1].is_overdue:
            # Its timeout has passed already and does not fire again.
            deliver(answer_to(ErrorCode.REQUEST_TIMED_OUT))
        else:
            self._open[-1].waiting.append(deliver)

    def refuse_all(self, error: ErrorCode) -> None:
        """Answer all waiting requests with the error; the shard is unloaded."""
        assert error is not ErrorCode.NONE, "what may be lost would be told as stored"
        for append in self._open:
            append.tell(answer_to(error))
        assert not any(append.waiting for append in self._open), "one would never be answered"

    def _on_committed(self, append: _Open) -> None:
        # A commit out of order would break the guarantee above silently.
        assert self._open[0] is append, "appends are committed in the order they were made"
        del self._open[0]
        append.tell(ErrorCode.NONE)

    def _on_failed(self, append: _Open, error: ErrorCode) -> None:
        assert append in self._open
        self._open = [other for other in self._open if other is not append]
        append.tell(answer_to(error))
        self._on_lost()

    def _on_overdue(self, append: _Open) -> None:
        assert append in self._open
        append.is_overdue = True
        append.tell(answer_to(ErrorCode.REQUEST_TIMED_OUT))
