"""The metadata store with ZooKeeper's own meaning: what every implementation must do.

One tree of znodes (bytes, versions, owners), written by single operations or by atomic groups,
watched by one-shot watches, and tied to sessions whose end removes their ephemeral znodes. The
same suite of contract tests runs against each implementation. Nothing here retries: a caller that
meets ``ConnectionLoss`` does not know whether its write happened and must look (hazard P-08).
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
    """What the owner of a session may still believe.

    CONNECTED: its ephemeral znodes are there. SUSPENDED: unknown, act as if they may be gone.
    LOST: they are gone, and the session object is of no further use."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class StoreError(Exception):
    """Why an operation was not done; the message names the path."""


class NoNode(StoreError):
    """There is no such znode, or no parent to create it under."""


class NodeExists(StoreError):
    """The znode that should be created is there already."""


class BadVersion(StoreError):
    """The znode's data version is not the expected one."""


class NotEmpty(StoreError):
    """A znode with children cannot be deleted."""


class NoChildrenForEphemerals(StoreError):
    """An ephemeral znode cannot have children."""


class RolledBack(StoreError):
    """An operation of a group was not done because another one of the group failed."""


class ConnectionLoss(StoreError):
    """The answer was lost: the operation was done or it was not, and the caller must look."""


class AnswerUnreadable(ConnectionLoss):
    """An answer came that means nothing here: the operation was done or it was not, the connection
    was given up, and the same question would be answered so again."""


class SessionExpired(StoreError):
    """The session is over; nothing more can be done with it."""


class GroupFailed(StoreError):
    """A group was refused as a whole.

    ``index`` is the place of the operation at fault and ``error`` its own error; ``errors`` has
    one entry per operation, ``RolledBack`` for those that were not at fault."""

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
    """What ``get`` answers."""

    data: bytes
    stat: Stat


class Created(NamedTuple):
    """What ``create`` answers: the path with its sequence number, and the bookkeeping."""

    path: str
    stat: Stat


class Create(NamedTuple):
    """Make a znode; ``sequential`` appends ten digits that grow with every child made there."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class Replace(NamedTuple):
    """Replace the data if the data version is the expected one; it grows by one."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Remove a childless znode if its data version is the expected one."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Only in groups: nothing is done unless the data version is the expected one."""

    path: str
    version: int


Operation = Create | Replace | Delete | Check
# What each operation of a group answers: Create its path, as ZooKeeper before 3.8.2 tells no more
# of it; Replace the new Stat; Delete and Check None.
OperationResult = str | Stat | None


class WatchEventKind(Enum):
    """What happened to a watched path."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    """One firing of a one-shot watch; it carries no data: the receiver reads again (C-07)."""

    kind: WatchEventKind
    path: str


Watch = Callable[[WatchEvent], object]


class MetadataSession(Protocol):
    """One session of the store, with everything that can be asked or done through it.

    A watch fires once, on the event loop, before any later answer of the same session can show the
    change. The same function watching the same path twice for the same kind fires once. Watches
    are dropped when the session is suspended or lost; the state listener hears of both, and must
    do nothing but put what it heard on a queue (C-05)."""

    @property
    def session_id(self) -> int:
        """What ``Stat.ephemeral_owner`` says of this session's ephemeral znodes."""

    @property
    def timeout_ms(self) -> int:
        """After this long without contact the store ends the session."""

    @property
    def state(self) -> SessionState: ...

    @property
    def last_answer_ms(self) -> float:
        """When the store last proved that the session lives, on the monotonic clock (C-06)."""

    def on_state(self, callback: Callable[[SessionState], object]) -> None:
        """Call back at every later change of the state."""

    async def get(self, path: str, watch: Watch | None = None) -> Znode:
        """Data and stat; the watch fires at change or deletion. Raises NoNode, without watch."""

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """The stat, if there is one; the watch fires at creation, change or deletion."""

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Names, sorted; the watch fires when one comes or goes, or the znode itself goes.

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

        Each operation sees what those before it did."""

    async def sync(self) -> None:
        """Return once this session sees every write, of any session, before the call (C-24)."""

    async def close(self) -> None:
        """End the session and its ephemeral znodes. May be called again."""


class Store(Protocol):
    """Where sessions come from. Every session is its own; a lost one is replaced by a new one."""

    async def connect(self, timeout_ms: int = SESSION_TIMEOUT_MS) -> MetadataSession:
        """Open a session. Raises ConnectionLoss."""
