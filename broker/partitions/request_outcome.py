"""A request about several partitions, answered when the outcome is known for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from ottla.broker.engine.purgatory import OperationOwner, Purgatory


class PendingPart(Protocol):
    """One partition's part of the request."""

    @property
    def keys(self) -> Sequence[Hashable]:
        """The key that is released when there may be an outcome."""

    def is_settled(self) -> bool:
        """Whether the outcome is known; an error is put into the response."""

    def fail(self, error: ErrorCode) -> None:
        """Put an error into the answer."""


def await_one(
    waiting: Purgatory,
    pending: PendingPart,
    deadline_ms: float,
    finish: Callable[[], object],
    owner: OperationOwner | None,
) -> None:
    """Like ``await_all``, for one partition whose outcome was just found open. HOT."""

    def try_complete() -> bool:
        if not pending.is_settled():
            return False
        finish()
        return True

    def on_expire() -> None:
        pending.fail(ErrorCode.REQUEST_TIMED_OUT)
        finish()

    waiting.park(pending.keys, deadline_ms, try_complete, on_expire, owner, just_asked=True)


def await_all(
    waiting: Purgatory,
    pending: Sequence[PendingPart],
    deadline_ms: float,
    finish: Callable[[], object],
    owner: OperationOwner | None,
) -> None:
    """Call ``finish`` once every partition is settled or the deadline has passed."""
    open_ones = list(pending)

    def try_complete() -> bool:
        open_ones[:] = [one for one in open_ones if not one.is_settled()]
        if open_ones:
            return False
        finish()
        return True

    def on_expire() -> None:
        for one in open_ones:
            one.fail(ErrorCode.REQUEST_TIMED_OUT)
        finish()

    keys = [key for one in pending for key in one.keys]
    waiting.park(keys, deadline_ms, try_complete, on_expire, owner)
