"""The interface of the metadata store, with ZooKeeper's semantics for every implementation.

One tree of znodes (bytes, versions, owners), changed by single operations or atomic multi requests,
with one-shot watches, and with sessions whose end removes their ephemeral znodes. The same contract
tests run against each implementation. The store never retries: after ``ConnectionLoss`` the caller
does not know whether its write was applied and must read (hazard P-08).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from ottla.protocol.named_tuples import NamedTuple

ANY_VERSION = -1
# Twice ZooKeeper's old default: pauses of one process must not expire half the cluster (C-17).
SESSION_TIMEOUT_MS = 18_000


class SessionState(Enum):
    """What the owner of a session may assume.

    CONNECTED: its ephemeral znodes exist. SUSPENDED: unknown, act as if they were removed. LOST:
    they are removed, and the session object cannot be used any more."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class StoreError(Exception):
    """Why an operation was not done; the message names the path."""


class NoNode(StoreError):
    """The znode does not exist, or no parent to create it under."""


class NodeExists(StoreError):
    """The znode to be created exists already."""


class NoAuth(StoreError):
    """The znode belongs to another user of the store."""

    def __str__(self) -> str:
        return f"NoAuth: {super().__str__()} belongs to another user of the store"


class BadVersion(StoreError):
    """The znode's data version is not the expected one."""


class NotEmpty(StoreError):
    """A znode with children cannot be deleted."""


class NoChildrenForEphemerals(StoreError):
    """An ephemeral znode cannot have children."""


class RolledBack(StoreError):
    """An operation of a group was not applied because another one of the group failed."""


class ConnectionLoss(StoreError):
    """The answer was lost: the operation may or may not have been applied; the caller must read."""


class AnswerUnreadable(ConnectionLoss):
    """The answer cannot be parsed: the operation may or may not have been applied. The connection
    was closed, and the same request would get the same answer."""


class SessionExpired(StoreError):
    """The session is over and cannot be used any more."""


class GroupFailed(StoreError):
    """A group was refused as a whole.

    ``index`` is the position of the failed operation and ``error`` its error; ``errors`` has one
    entry per operation, ``RolledBack`` for the others."""

    def __init__(self, index: int, error: StoreError, count: int) -> None:
        super().__init__(f"operation {index + 1} of {count}: {type(error).__name__} {error}")
        self.index = index
        self.error = error
        self.errors = tuple(
            error if place == index else RolledBack(f"operation {index + 1} failed")
            for place in range(count)
        )


class Stat(NamedTuple):
    """A znode's bookkeeping. Zxids number the store's transactions; owner 0 = persistent."""

    czxid: int
    mzxid: int
    version: int
    children_version: int
    ephemeral_owner: int
    child_count: int
    created_ms: int


class Znode(NamedTuple):
    """The result of ``get``."""

    data: bytes
    stat: Stat


class Created(NamedTuple):
    """The result of ``create``: the path with its sequence number, and the stat."""

    path: str
    stat: Stat


class Create(NamedTuple):
    """Create a znode; ``sequential`` appends ten digits that grow with every child created
    there."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class Replace(NamedTuple):
    """Replace the data if the data version is the expected one; the version grows by one."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Remove a childless znode if its data version is the expected one."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Only in groups: the group fails unless the data version is the expected one."""

    path: str
    version: int


Operation = Create | Replace | Delete | Check
# The result of each operation of a group: for Create its path, because ZooKeeper before 3.8.2
# returns no stat; for Replace the new Stat; for Delete and Check None.
OperationResult = str | Stat | None


class WatchEventKind(Enum):
    """What happened to a watched path."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    """One event of a one-shot watch; it contains no data: the receiver reads again (C-07)."""

    kind: WatchEventKind
    path: str


Watch = Callable[[WatchEvent], object]


class MetadataSession(Protocol):
    """One session of the store, with all its operations.

    A watch fires once, on the event loop, before any later answer of the same session can show the
    change. The same function watching the same path twice for the same kind fires once. Watches are
    dropped when the session is suspended or lost; the state listener is called for both, and must
    only put the state on a queue (C-05)."""

    @property
    def session_id(self) -> int:
        """The value of ``Stat.ephemeral_owner`` of this session's ephemeral znodes."""

    @property
    def timeout_ms(self) -> int:
        """After this time without contact the store ends the session."""

    @property
    def state(self) -> SessionState: ...

    @property
    def last_answer_ms(self) -> float:
        """When the store last proved that the session is alive, on the monotonic clock (C-06)."""

    def on_state(self, callback: Callable[[SessionState], object]) -> None:
        """Call back at every later change of the state."""

    async def get(self, path: str, watch: Watch | None = None) -> Znode:
        """Data and stat; the watch fires at change or deletion. Raises NoNode, without watch."""

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """The stat, if there is one; the watch fires at creation, change or deletion."""

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Names, sorted; the watch fires when a child is created or deleted, or the znode is
        deleted.

        Raises NoNode, without watch."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Created:
        """See ``Create``. Raises NoNode, NodeExists, NoChildrenForEphemerals."""

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """See ``Replace``. Raises NoNode, BadVersion."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See ``Delete``. Raises NoNode, BadVersion, NotEmpty."""

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """Do all or none, as one transaction. Raises GroupFailed when none was done.

        Each operation sees the changes of those before it."""

    async def sync(self) -> None:
        """Return once this session sees every write that any session made before the call
        (C-24)."""

    async def close(self) -> None:
        """End the session and its ephemeral znodes. May be called again."""


class Store(Protocol):
    """Opens sessions, independent of each other; a lost session is replaced by a new one."""

    async def connect(self, timeout_ms: int = SESSION_TIMEOUT_MS) -> MetadataSession:
        """Open a session. Raises ConnectionLoss."""
