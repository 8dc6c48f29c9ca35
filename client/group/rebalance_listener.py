"""The application's callbacks for changes of its assignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from ottla.protocol.ids import TopicPartition


METHODS = ("on_assigned", "on_revoked", "on_lost")


class RebalanceListener(Protocol):
    """Callbacks for changes of the assignment: inherit from it, or define methods with these names.

    Each method may be a coroutine function. They run inside ``poll`` or the iteration, in the task
    that reads, so no record is returned meanwhile. They must not poll. Their exceptions are raised
    by that call, and the assignment changes in any case."""

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Called with new partitions. A ``seek`` here overrides the committed offsets.

        Args:
            partitions: The partitions that this consumer reads from now on.
        """
        return None

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Called before partitions are given up: the last chance to commit what was read of them.

        Automatic commits have been done by then.

        Args:
            partitions: The partitions that this consumer gives up when the method returns.
        """
        return None

    def on_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Called with partitions that the group took away: another member may read them already.

        Nothing can be committed for them.

        Args:
            partitions: The lost partitions.
        """
        return None


def check_listener(listener: object) -> None:
    """Raise TypeError unless it is a listener, or None."""
    methods = [getattr(listener, name, None) for name in METHODS]
    if listener is not None and (isinstance(listener, type) or not all(map(callable, methods))):
        raise TypeError(f"a listener is a RebalanceListener, not {listener!r}")
