"""Requests of a session to the ensemble, and the interface between sessions and the network.

Writes are the operations of ``store.py``; reads are defined here. The real link is in
``zookeeper_link.py``; tests of a session use a scripted one.
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
    """Answered with a Znode."""

    path: str
    watched: bool = False


class Exists(NamedTuple):
    """Answered with a Stat or None."""

    path: str
    watched: bool = False


class Children(NamedTuple):
    """Answered with a list of names, in no order."""

    path: str
    watched: bool = False


class Sync(NamedTuple):
    """Answered with None once the server has caught up with its leader."""

    path: str


class ZnodeRight(NamedTuple):
    """What one user may do with a znode: ZooKeeper's scheme, the user's name in it, and a bit field
    of rights."""

    scheme: str
    user: str
    rights: int


class GetRights(NamedTuple):
    """Answered with the set of the znode's rights."""

    path: str


class SetRights(NamedTuple):
    """Replaces a znode's rights; answered with None."""

    path: str
    rights: frozenset[ZnodeRight]


class MultiOperation(NamedTuple):
    """All or none; answered with one result for each."""

    operations: tuple[Operation, ...]


# A server closes the connection at requests above jute.maxbuffer, 0xfffff bytes by default; the
# session would then repeat the request without end (C-16).
REQUEST_BYTES_MAX = 1_000_000
# The bytes of an operation besides its path and data, rounded up.
_OPERATION_BYTES = 100

Request = (
    Create
    | Replace
    | Delete
    | Get
    | Exists
    | Children
    | Sync
    | GetRights
    | SetRights
    | MultiOperation
)


def size_of(request: Request) -> int:
    """Return an upper bound of the request's bytes on the wire."""
    operations = request.operations if isinstance(request, MultiOperation) else (request,)
    return sum(
        _OPERATION_BYTES + len(one.path.encode()) + len(getattr(one, "data", b""))
        for one in operations
    )


class Answered(NamedTuple):
    """A result, or why there is none.

    ``ConnectionLoss`` means that the connection must be closed."""

    result: object
    error: StoreError | None


class LinkEvents(Protocol):
    """Callbacks of a link; always on the event loop, in the order of the events."""

    def on_connected(
        self, connection: int, session_id: int, timeout_ms: int, since_ms: float
    ) -> None:
        """The servers have accepted the session; ``since_ms`` is from before the request."""

    def on_dropped(self) -> None:
        """The connection is lost; the link looks for another one."""

    def on_ended(self, reason: str) -> None:
        """The servers, or the link, have ended the session permanently."""

    def on_event(self, event: WatchEvent) -> None:
        """A watched path has changed."""


class ConnectionLink(Protocol):
    """One session's connection, which is replaced when it is lost."""

    def start(self, events: LinkEvents) -> None:
        """Start to connect, and retry until stopped."""

    def submit(self, request: Request, on_answer: Callable[[Answered], None]) -> None:
        """Send a request, in the order of calls. Answered once, later, on the event loop."""

    def pulse(self) -> None:
        """The event loop is running: the session may be kept for another timeout."""

    def deliver(self) -> None:
        """Report now the messages that have arrived."""

    def drop(self, connection: int) -> None:
        """Close that connection, if it is still the present one; the link looks for another one."""

    def stop(self) -> asyncio.Future[None]:
        """End the session if the servers can be reached, and free everything."""
