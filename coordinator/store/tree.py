"""The tree of znodes as a pure state machine: a transaction in, results and watch events out.

Rules of this file: a transaction is applied as a whole or not at all; its effect depends only on
the tree and the transaction, so that replaying a journal gives the same tree.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from ottla.coordinator.store.store import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Created,
    Delete,
    GroupFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationResult,
    Replace,
    Stat,
    StoreError,
    WatchEvent,
    WatchEventKind,
    Znode,
)
from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = "/"


class OpenSession(NamedTuple):
    """A session begins; its id is the zxid of the transaction that opens it."""

    timeout_ms: int


class CloseSession(NamedTuple):
    """A session ends, and its ephemeral znodes with it."""

    session_id: int


Step = Operation | OpenSession | CloseSession
# The result of each step: Created, the new Stat, or None for all others.
StepResult = Created | Stat | None


class StoreTransaction(NamedTuple):
    """One entry of the journal. ``session_id`` becomes the owner of ephemeral znodes."""

    zxid: int
    wall_ms: int
    session_id: int
    steps: tuple[Step, ...]


@dataclass(slots=True)
class TreeNode:
    """One znode. ``creations`` counts children ever created: the next sequence number."""

    data: bytes
    czxid: int
    mzxid: int
    owner: int
    created_ms: int
    version: int = 0
    creations: int = 0
    children: set[str] = field(default_factory=set)

    def stat(self) -> Stat:
        # Counts creations and deletions; children that were created and no longer exist are
        # deleted.
        changes = 2 * self.creations - len(self.children)
        return Stat(
            self.czxid,
            self.mzxid,
            self.version,
            changes,
            self.owner,
            len(self.children),
            self.created_ms,
        )


def in_group(results: list[StepResult]) -> list[OperationResult]:
    """Return the results in the form of a multi request's answer."""
    return [one.path if isinstance(one, Created) else one for one in results]


class Applied(NamedTuple):
    """An applied transaction. ``undo`` reverts it; only the latest one can be reverted."""

    results: list[StepResult]
    events: list[WatchEvent]
    undo: Callable[[], None]


class Tree:
    """Owned by one store. Reading never changes it; only ``apply`` does."""

    def __init__(self) -> None:
        self.nodes: dict[str, TreeNode] = {ROOT: TreeNode(b"", 0, 0, 0, 0)}
        # Session id -> the paths of its ephemeral znodes.
        self.sessions: dict[int, set[str]] = {}
        self.last_zxid = 0
        self._undo: list[Callable[[], object]] = []
        self._events: list[WatchEvent] = []

    def get(self, path: str) -> Znode:
        """Data and bookkeeping of a znode. Raises NoNode."""
        node = self._node(path)
        return Znode(node.data, node.stat())

    def exists(self, path: str) -> Stat | None:
        """The bookkeeping, if the znode is there."""
        node = self.nodes.get(path)
        return None if node is None else node.stat()

    def children(self, path: str) -> list[str]:
        """Sorted names. Raises NoNode."""
        return sorted(self._node(path).children)

    def walk(self) -> Iterator[tuple[str, TreeNode]]:
        """Yield every znode, each parent before its children, in an order that depends only on the
        tree."""
        waiting = [ROOT]
        while waiting:
            path = waiting.pop()
            node = self.nodes[path]
            yield path, node
            prefix = "" if path == ROOT else path
            waiting.extend(f"{prefix}/{name}" for name in sorted(node.children, reverse=True))

    def restore(self, path: str, node: TreeNode) -> None:
        """Add a znode of a snapshot; parents must come before children."""
        assert path == ROOT or path not in self.nodes
        if path != ROOT:
            parent, name = split(path)
            self.nodes[parent].children.add(name)
        self.nodes[path] = node
        if node.owner:
            self.sessions.setdefault(node.owner, set()).add(path)

    def apply(self, transaction: StoreTransaction) -> Applied:
        """Apply all steps or none. Raises GroupFailed; then the tree is unchanged."""
        assert transaction.zxid == self.last_zxid + 1, "transactions come in order"
        self._undo, self._events = [], []
        results: list[StepResult] = []
        for index, step in enumerate(transaction.steps):
            try:
                results.append(self._step(step, transaction))
            except StoreError as error:
                self._take_back(self._undo)
                raise GroupFailed(index, error, len(transaction.steps)) from None
        self.last_zxid = transaction.zxid
        undo = self._undo

        def take_back() -> None:
            assert self.last_zxid == transaction.zxid, "only the latest can be taken back"
            self._take_back(undo)
            self.last_zxid = transaction.zxid - 1

        return Applied(results, self._events, take_back)

    def _step(self, step: Step, transaction: StoreTransaction) -> StepResult:
        match step:
            case Create():
                return self._create(step, transaction)
            case Replace(path, data, version):
                return self._set(path, data, version, transaction.zxid)
            case Delete(path, version):
                self._checked(path, version)
                self._remove(path)
            case Check(path, version):
                self._checked(path, version)
            case OpenSession():
                self.sessions[transaction.zxid] = set()
                self._undo.append(lambda: self.sessions.pop(transaction.zxid))
            case CloseSession(session_id):
                owned = self.sessions.get(session_id, set())
                for path in sorted(owned):
                    self._remove(path)
                self.sessions.pop(session_id, None)
                self._undo.append(lambda: self.sessions.__setitem__(session_id, owned))
        return None

    def _create(self, step: Create, transaction: StoreTransaction) -> Created:
        parent_path, _name = split(step.path)
        parent = self._node(parent_path)
        if parent.owner:
            raise NoChildrenForEphemerals(parent_path)
        path = f"{step.path}{parent.creations:010d}" if step.sequential else step.path
        validate_path(path)
        if path in self.nodes:
            raise NodeExists(path)
        owner = transaction.session_id if step.ephemeral else 0
        node = TreeNode(step.data, transaction.zxid, transaction.zxid, owner, transaction.wall_ms)
        self.nodes[path] = node
        name = split(path)[1]
        parent.children.add(name)
        parent.creations += 1
        if owner:
            self.sessions[owner].add(path)
        self._undo.append(lambda: self._undo_create(path, parent, name))
        self._events.append(WatchEvent(WatchEventKind.CREATED, path))
        self._events.append(WatchEvent(WatchEventKind.CHILDREN, parent_path))
        return Created(path, node.stat())

    def _undo_create(self, path: str, parent: TreeNode, name: str) -> None:
        node = self.nodes.pop(path)
        parent.children.discard(name)
        parent.creations -= 1
        if node.owner:
            self.sessions[node.owner].discard(path)

    def _set(self, path: str, data: bytes, version: int, zxid: int) -> Stat:
        node = self._checked(path, version)
        before = (node.data, node.mzxid, node.version)

        def undo() -> None:
            node.data, node.mzxid, node.version = before

        node.data, node.mzxid, node.version = data, zxid, node.version + 1
        self._undo.append(undo)
        self._events.append(WatchEvent(WatchEventKind.CHANGED, path))
        return node.stat()

    def _remove(self, path: str) -> None:
        node = self.nodes[path]
        if node.children:
            raise NotEmpty(path)
        parent_path, name = split(path)
        parent = self.nodes[parent_path]
        del self.nodes[path]
        parent.children.discard(name)
        if node.owner:
            self.sessions[node.owner].discard(path)

        def undo() -> None:
            self.nodes[path] = node
            parent.children.add(name)
            if node.owner:
                self.sessions[node.owner].add(path)

        self._undo.append(undo)
        self._events.append(WatchEvent(WatchEventKind.DELETED, path))
        self._events.append(WatchEvent(WatchEventKind.CHILDREN, parent_path))

    def _node(self, path: str) -> TreeNode:
        node = self.nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node

    def _checked(self, path: str, version: int) -> TreeNode:
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(f"{path} is at {node.version}, not {version}")
        return node

    @staticmethod
    def _take_back(undo: list[Callable[[], object]]) -> None:
        for step in reversed(undo):
            step()


def split(path: str) -> tuple[str, str]:
    """The parent's path and the last name."""
    parent, _, name = path.rpartition("/")
    return parent or ROOT, name


def validate_path(path: str) -> None:
    """Raise an error for an invalid path, which is a bug: paths never come from a client."""
    names = path.split("/")
    assert names[0] == "", path
    assert not {"", ".", ".."} & set(names[1:]), path
    assert "\0" not in path, path
