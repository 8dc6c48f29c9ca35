"""Collects the effects of one shard and the callbacks for their outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.coordinator.effects import NOBODY, Append, Effects, LogRecord, SendResponse, Writer
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.coordinator.effects import Ticket, Token
    from ottla.protocol.errors import ErrorCode


def nothing() -> None:
    """The callback that does nothing."""


class Continuation(NamedTuple):
    """Exactly one of ``on_committed`` and ``on_failed`` is called; ``on_overdue`` at most once,
    before them: it answers the waiting request while the outcome is still open."""

    on_committed: Callable[[], object]
    on_failed: Callable[[ErrorCode], object]
    on_overdue: Callable[[], object] = nothing


class Outbox:
    """One per shard. The shard takes its effects, in order, at the end of each call."""

    def __init__(self) -> None:
        self._effects: Effects = []
        self._open: dict[Token, Continuation] = {}
        self._last_token = 0

    @property
    def open_count(self) -> int:
        """The number of appends without a known outcome."""
        return len(self._open)

    def answer(self, ticket: Ticket, response: Any) -> None:
        """Answer a request."""
        self._effects.append(SendResponse(ticket, response))

    def append(
        self,
        records: Sequence[LogRecord],
        continuation: Continuation,
        writer: Writer = NOBODY,
    ) -> None:
        """Append to the internal partition; the continuation gets the outcome."""
        assert records, "an empty batch would never be committed"
        self._last_token += 1
        self._open[self._last_token] = continuation
        self._effects.append(Append(self._last_token, tuple(records), writer))

    def take(self) -> Effects:
        """Return the effects since the last call."""
        effects, self._effects = self._effects, []
        return effects

    def take_answers(self) -> Effects:
        """Like ``take``, for a shard that may not write any more."""
        return [effect for effect in self.take() if isinstance(effect, SendResponse)]

    def committed(self, token: Token) -> None:
        """The high watermark has passed the records."""
        self._open.pop(token).on_committed()

    def failed(self, token: Token, error: ErrorCode) -> None:
        """The records were not written, or the outcome is unknown."""
        self._open.pop(token).on_failed(error)

    def overdue(self, token: Token) -> None:
        """The outcome is still open after offsets.commit.timeout.ms."""
        continuation = self._open.get(token)
        if continuation is not None:
            self._open[token] = continuation._replace(on_overdue=nothing)
            continuation.on_overdue()

    def fail_all(self, error: ErrorCode) -> None:
        """Fail every waiting request: the outcome of the open appends will stay unknown."""
        while self._open:
            self._open.pop(next(iter(self._open))).on_failed(error)
