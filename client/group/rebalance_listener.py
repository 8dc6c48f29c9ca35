"""What an application can do when its partitions change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from ottla.protocol.ids import TopicPartition


METHODS = ("on_assigned", "on_revoked", "on_lost")


class RebalanceListener(Protocol):
    """Inherit from it, or have methods of these names; each may be a coroutine function.

    They run inside ``poll`` or the iteration, in the task that reads: no record is handed out
    while they do. They must not poll themselves. What they raise, that call raises, and the
    assignment has changed all the same."""

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These are ours from now on. A ``seek`` here goes before the committed offsets."""
        return None

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These are given up when this returns: the last moment to commit what was read of them.
        With automatic commits that has been done."""
        return None

    def on_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These may be another member's already, since the group has gone on without us: nothing
        can be committed for them."""
        return None


def check_listener(listener: object) -> None:
    """Raise TypeError unless it is a listener, or None."""
    methods = [getattr(listener, name, None) for name in METHODS]
    if listener is not None and (isinstance(listener, type) or not all(map(callable, methods))):
        raise TypeError(f"a listener is a RebalanceListener, not {listener!r}")
