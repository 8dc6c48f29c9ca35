"""What a session asks of the ensemble, and the seam between the sessions and the wire.

Writes are the operations of ``store.py``; reads stand here. The real link is in
``zookeeper_link.py``; a scripted one stands in for it where a session is tested by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.store.store import Create, Delete, Operation, Replace
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from ottla.coordinator.store.store import StoreError, WatchEvent


class Get(NamedTuple):
    """Answered by a Znode."""

    path: str
    watched: bool = False


class Exists(NamedTuple):
    """Answered by a Stat or None."""

    path: str
    watched: bool = False


class Children(NamedTuple):
    """Answered by a list of names, in no order."""

    path: str
    watched: bool = False


class Sync(NamedTuple):
    """Answered by None once the server has caught up with its leader."""

    path: str


class MultiOperation(NamedTuple):
    """All or none; answered by one result for each."""

    operations: tuple[Operation, ...]


# A server closes the connection at requests above jute.maxbuffer, 0xfffff bytes unless it is told
# otherwise; the session would then be repeated and cut for ever (C-16).
REQUEST_BYTES_MAX = 1_000_000
# What an operation costs beside its path and data, rounded up.
_OPERATION_BYTES = 100

Request = Create | Replace | Delete | Get | Exists | Children | Sync | MultiOperation


def size_of(request: Request) -> int:
    """An upper bound of its bytes on the wire."""
    operations = request.operations if isinstance(request, MultiOperation) else (request,)
    return sum(
        _OPERATION_BYTES + len(one.path.encode()) + len(getattr(one, "data", b""))
        for one in operations
    )


class Answered(NamedTuple):
    """Either a result, or why there is none.

    ``ConnectionLoss`` says that the connection is of no further use."""

    result: object
    error: StoreError | None


class LinkEvents(Protocol):
    """What a link tells; always on the event loop, in the order in which it happened."""

    def on_connected(
        self, connection: int, session_id: int, timeout_ms: int, since_ms: float
    ) -> None:
        """The servers have taken the session up; ``since_ms`` is from before they were asked."""

    def on_dropped(self) -> None:
        """The connection is gone; the link looks for another one."""

    def on_ended(self, reason: str) -> None:
        """The servers, or the link, have given the session up for good."""

    def on_event(self, event: WatchEvent) -> None:
        """A watched path has changed."""


class ConnectionLink(Protocol):
    """One session's connection, and the next one when it is gone."""

    def start(self, events: LinkEvents) -> None:
        """Begin to connect, and go on trying until stopped."""

    def submit(self, request: Request, on_answer: Callable[[Answered], None]) -> None:
        """Ask, in the order of calls. Answered once, later, on the event loop."""

    def pulse(self) -> None:
        """The event loop lives: the session may be kept for another timeout."""

    def deliver(self) -> None:
        """Tell now what has arrived and was not told yet."""

    def drop(self, connection: int) -> None:
        """Cut that connection, if it is still the present one; another one is looked for."""

    def stop(self) -> asyncio.Future[None]:
        """End the session if the servers can be told so, and free everything."""
