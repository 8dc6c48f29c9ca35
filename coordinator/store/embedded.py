"""The metadata store inside this process: one tree, any number of sessions, a journal on disk.

A write changes the tree at once and is answered when its journal entry is durable. Reads and watch
events that could show it wait in the same queue, so that no session acts on state that a crash can
revert. A failed flush ends all sessions, because the content of the disk is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ottla.coordinator.store.journal import Journal, make_directory
from ottla.coordinator.store.store import (
    ANY_VERSION,
    SESSION_TIMEOUT_MS,
    ConnectionLoss,
    Create,
    Created,
    Delete,
    GroupFailed,
    NoNode,
    Operation,
    OperationResult,
    Replace,
    SessionExpired,
    SessionState,
    Stat,
    Watch,
    WatchEvent,
    Znode,
)
from ottla.coordinator.store.tree import CloseSession, OpenSession, StoreTransaction, in_group
from ottla.coordinator.store.watches import Watches
from ottla.protocol.errors import CorruptLogError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.store.tree import Applied, Step, StepResult, Tree
    from ottla.protocol.ports import Clock, Disk, FileLock

logger = logging.getLogger("ottla.store")

# Runs a coroutine as a supervised background task; the first argument is the task's name.
Spawn = Callable[[str, Coroutine[Any, Any, None]], object]

Answer = TypeVar("Answer")

_LOCK_NAME = "store.lock"


class _Due(NamedTuple):
    """A callback to run once the journal is durable up to a transaction."""

    zxid: int
    deliver: Callable[[], object]


class EmbeddedStore:
    """Lives as long as the process. When it opens, it ends the sessions of an earlier process."""

    def __init__(self, journal: Journal, tree: Tree, clock: Clock, spawn: Spawn) -> None:
        self._journal = journal
        self._tree = tree
        self._clock = clock
        self._spawn = spawn
        self._durable_zxid = tree.last_zxid
        self._due: deque[_Due] = deque()
        self._is_flushing = False
        self._failure: Exception | None = None
        self._sessions: dict[int, EmbeddedSession] = {}
        # Over, while their ephemeral znodes are still there.
        self._ending: set[int] = set()
        self._lock: FileLock | None = None
        self._on_failure: list[Callable[[Exception], object]] = []

    def __str__(self) -> str:
        return "the metadata store"

    @classmethod
    async def open(cls, disk: Disk, clock: Clock, spawn: Spawn, directory: str) -> EmbeddedStore:
        """Replay the journal in the directory, or start a new one.

        Raises CorruptLogError; BlockingIOError if another process has the directory; OSError."""
        await make_directory(disk, directory)
        lock = disk.lock(f"{directory}/{_LOCK_NAME}")
        try:
            journal, tree = await Journal.open(disk, directory)
            store = cls(journal, tree, clock, spawn)
            store._lock = lock
            # The sessions that owned these ephemeral znodes ended with the previous process.
            left = tuple(CloseSession(session_id) for session_id in sorted(tree.sessions))
            if left:
                store._do(left, 0)
                await store.settled()
        except BaseException:
            lock.release()
            raise
        return store

    async def connect(self, timeout_ms: int = SESSION_TIMEOUT_MS) -> EmbeddedSession:
        """Open a session; only ``close`` and ``expire`` end it, silence does not."""
        self._do((OpenSession(timeout_ms),), 0)
        session_id = self._tree.last_zxid
        session = EmbeddedSession(self, session_id, timeout_ms)
        self._sessions[session_id] = session
        await self.settled()
        return session

    async def expire(self, session_id: int) -> None:
        """Expire a session, as ZooKeeper does after too long a silence.

        Raises ConnectionLoss if the journal cannot grow: the session is over then, and its
        ephemeral znodes stay until it is expired again."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._ending.add(session_id)
            session.end()
        if session_id in self._ending:
            self._do((CloseSession(session_id),), 0)
            self._ending.discard(session_id)
            await self.settled()

    async def close(self) -> None:
        """End every session and free the directory. May be called again."""
        for session_id in sorted(self._sessions):
            # On a full disk they are ended when the store is opened again.
            with contextlib.suppress(ConnectionLoss):
                await self.expire(session_id)
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def on_failure(self, callback: Callable[[Exception], object]) -> None:
        """Call back when the store has failed; then no session can be opened any more."""
        self._on_failure.append(callback)

    @property
    def failure(self) -> Exception | None:
        """Why the store has failed, if it has."""
        return self._failure

    def read_tree(self) -> Tree:
        """The tree to read from; answer only after ``settled``. Raises ConnectionLoss."""
        self._refuse_if_failed()
        return self._tree

    def write(self, steps: tuple[Step, ...], session_id: int) -> list[StepResult]:
        """Do the steps or none; answer only after ``settled``.

        Raises GroupFailed (not done), ConnectionLoss (outcome unknown)."""
        return self._do(steps, session_id).results

    async def settled(self) -> None:
        """Return once everything that the caller may have read is durable. Raises
        ConnectionLoss."""
        self._refuse_if_failed()
        if not self._due and self._durable_zxid == self._tree.last_zxid:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._when_durable(lambda: _release(waiter))
        await waiter
        self._refuse_if_failed()

    def when_settled(self, deliver: Callable[[], object]) -> None:
        """Call back, at once or later, when everything that the caller may have read is durable, or
        the store has failed. Callbacks run in order, also relative to watch events."""
        if self._due or self._durable_zxid != self._tree.last_zxid:
            self._when_durable(deliver)
        else:
            deliver()

    def _do(self, steps: tuple[Step, ...], session_id: int) -> Applied:
        self._refuse_if_failed()
        transaction = StoreTransaction(
            self._tree.last_zxid + 1, self._clock.wall_ms(), session_id, steps
        )
        applied = self._tree.apply(transaction)
        try:
            self._journal.append(transaction)
        except OSError as error:
            applied.undo()
            raise ConnectionLoss(f"the journal cannot grow: {error}") from error
        except CorruptLogError as error:
            applied.undo()
            self._fail(error)
        for event in applied.events:
            self._fire(event)
        self._when_durable(lambda: None)
        return applied

    def _fire(self, event: WatchEvent) -> None:
        for session_id in sorted(self._sessions):
            session = self._sessions[session_id]
            watches = session.take_watches(event)
            if watches:
                self._when_durable(_delivery(session, watches, event))

    def _when_durable(self, deliver: Callable[[], object]) -> None:
        self._due.append(_Due(self._tree.last_zxid, deliver))
        if not self._is_flushing:
            self._is_flushing = True
            self._spawn("store journal", self._flush())

    async def _flush(self) -> None:
        """Flush the journal for all waiting writes together, until no write waits."""
        try:
            while self._due and self._failure is None:
                if self._journal.needs_compaction:
                    self._compact()
                zxid = self._tree.last_zxid
                if zxid > self._durable_zxid:
                    await self._journal.flush()
                    self._durable_zxid = zxid
                while self._due and self._due[0].zxid <= self._durable_zxid:
                    self._due.popleft().deliver()
            self._is_flushing = False
        except OSError as error:
            self._give_up(error)
        except BaseException as error:
            self._give_up(ConnectionLoss(f"the store was stopped: {error!r}"))
            raise

    def _compact(self) -> None:
        try:
            self._journal.begin_compaction(self._tree)
        except OSError as error:
            logger.warning("the store's journal could not be compacted: %s", error)

    def _refuse_if_failed(self) -> None:
        if self._failure is not None:
            raise ConnectionLoss(f"the store has failed: {self._failure}")

    def _fail(self, error: Exception) -> NoReturn:
        self._give_up(error)
        raise ConnectionLoss(f"the store has failed: {error}") from error

    def _give_up(self, error: Exception) -> None:
        """A failed flush is final (hazard S-09): end all sessions, leave all outcomes unknown."""
        logger.error("the metadata store has failed: %r", error)
        self._failure = error
        due, self._due = self._due, deque()
        sessions, self._sessions = self._sessions, {}
        for session_id in sorted(sessions):
            sessions[session_id].end()
        # Events are dropped because their sessions are over; waiters wake up and get the failure.
        for item in due:
            item.deliver()
        for callback in self._on_failure:
            callback(error)


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _delivery(
    session: EmbeddedSession, watches: Sequence[Watch], event: WatchEvent
) -> Callable[[], None]:
    def deliver() -> None:
        if session.state is SessionState.CONNECTED:
            for watch in watches:
                watch(event)

    return deliver


class EmbeddedSession:
    """One session of the embedded store; see ``store.Session`` for the meaning of each call."""

    def __init__(self, store: EmbeddedStore, session_id: int, timeout_ms: int) -> None:
        self._store = store
        self.session_id = session_id
        self.timeout_ms = timeout_ms
        self.state = SessionState.CONNECTED
        self._listeners: list[Callable[[SessionState], object]] = []
        self.watches = Watches()

    @property
    def last_answer_ms(self) -> float:
        """Returns the present time while the session lives: the store is in this process."""
        return self._store._clock.now_ms() if self.state is SessionState.CONNECTED else 0.0

    def on_state(self, callback: Callable[[SessionState], object]) -> None:
        """Call back when the session is lost."""
        self._listeners.append(callback)

    async def get(self, path: str, watch: Watch | None = None) -> Znode:
        """Data and stat."""
        return await self._read(lambda tree: tree.get(path), self.watches.watch_node, path, watch)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """The stat, if there is one."""
        return await self._read(
            lambda tree: tree.exists(path), self.watches.watch_node, path, watch
        )

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Sorted names."""
        return await self._read(
            lambda tree: tree.children(path), self.watches.watch_children, path, watch
        )

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Created:
        """Make a znode."""
        created = await self._one(Create(path, data, ephemeral, sequential))
        assert isinstance(created, Created)
        return created

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the data."""
        stat = await self._one(Replace(path, data, version))
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a childless znode."""
        await self._one(Delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """All or none."""
        results = await self._write(tuple(operations))
        return in_group(results)

    async def _write(self, operations: tuple[Operation, ...]) -> list[StepResult]:
        self._refuse_if_over()
        try:
            results = self._store.write(operations, self.session_id)
        except GroupFailed:
            # A refusal reveals the tree, too: it must not be sent before its cause is durable.
            await self._settled()
            raise
        await self._settled()
        return results

    async def sync(self) -> None:
        """Does nothing: there is only one tree."""
        self._refuse_if_over()
        await self._settled()

    async def close(self) -> None:
        """End the session and its ephemeral znodes."""
        if self.state is not SessionState.LOST:
            await self._store.expire(self.session_id)

    def end(self) -> None:
        """The store has ended the session."""
        self.state = SessionState.LOST
        self.watches.clear()
        for listener in self._listeners:
            listener(SessionState.LOST)

    def take_watches(self, event: WatchEvent) -> list[Watch]:
        """Remove and return the watches that this event fires."""
        return self.watches.take(event)

    async def _read(
        self,
        read: Callable[[Tree], Answer],
        arm: Callable[[str, Watch], None],
        path: str,
        watch: Watch | None,
    ) -> Answer:
        self._refuse_if_over()
        try:
            found = read(self._store.read_tree())
        except NoNode:
            await self._settled()
            raise
        if watch is not None:
            arm(path, watch)
        await self._settled()
        return found

    async def _one(self, operation: Operation) -> StepResult:
        try:
            results = await self._write((operation,))
        except GroupFailed as failed:
            raise failed.error from None
        return results[0]

    async def _settled(self) -> None:
        await self._store.settled()
        self._refuse_if_over()

    def _refuse_if_over(self) -> None:
        if self.state is SessionState.LOST:
            raise SessionExpired(f"session {self.session_id} is over")
