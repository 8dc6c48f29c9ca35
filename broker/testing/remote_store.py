"""A metadata store in another process: both ends of the connection.

The process of the cluster has the store; brokers in their own processes ask it as they would ask
ZooKeeper, each through a session that ends with its process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.coordinator.store.store import (
    ANY_VERSION,
    SESSION_TIMEOUT_MS,
    ConnectionLoss,
    Created,
    Operation,
    OperationResult,
    SessionExpired,
    SessionState,
    Stat,
    Watch,
    WatchEvent,
    Znode,
)
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.testing.wire import CallChannel
    from ottla.coordinator.store.store import MetadataSession, Store
    from ottla.protocol.ports import Clock

# Messages between the two ends.
CONNECT, ASK, STATE, WATCH = "connect", "ask", "state", "watch"
# How often a session is checked within its timeout.
PINGS = 3


class StoreHost:
    """The end that has the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sessions: dict[int, MetadataSession] = {}

    async def connect(self, wire: CallChannel, timeout_ms: int) -> int:
        """Open a session for the other end; its id."""
        session = await self._store.connect(timeout_ms)
        session_id = session.session_id
        self._sessions[session_id] = session
        session.on_state(lambda state: wire.note(STATE, session_id, state))
        return session_id

    async def ask(
        self,
        wire: CallChannel,
        session_id: int,
        what: str,
        arguments: dict[str, Any],
        watch: int | None,
    ) -> object:
        """Call the session. Raises StoreError."""
        if watch is not None:
            arguments["watch"] = _RemoteWatch(wire, watch)
        return await getattr(self._sessions[session_id], what)(**arguments)

    def state_of(self, session_id: int) -> SessionState:
        """Return the session's state in the store."""
        return self._sessions[session_id].state


@dataclass(frozen=True, slots=True)
class _RemoteWatch:
    """Equal to another one of the same function, so that the store treats both as the same
    watch."""

    wire: CallChannel
    number: int

    def __call__(self, event: WatchEvent) -> None:
        self.wire.note(WATCH, self.number, event)


class RemoteStore:
    """``store.Store`` at the other end."""

    def __init__(self, clock: Clock) -> None:
        self.wire: CallChannel | None = None
        self.clock = clock
        self._sessions: dict[int, RemoteSession] = {}
        self._numbers: dict[Watch, int] = {}
        self._watches: list[Watch] = []

    async def connect(self, timeout_ms: int = SESSION_TIMEOUT_MS) -> RemoteSession:
        session_id = await self.call(CONNECT, timeout_ms)
        session = self._sessions[session_id] = RemoteSession(self, session_id, timeout_ms)
        session.begin()
        return session

    async def call(self, name: str, *arguments: object) -> Any:
        """Raises StoreError."""
        assert self.wire is not None
        try:
            return await self.wire.call(name, *arguments)
        except ConnectionError as error:
            raise ConnectionLoss(str(error)) from error

    def number_of(self, watch: Watch) -> int:
        """Return the number of the watch on the wire."""
        number = self._numbers.setdefault(watch, len(self._watches))
        if number == len(self._watches):
            self._watches.append(watch)
        return number

    def on_state(self, session_id: int, state: SessionState) -> None:
        """The host reports the new state of a session."""
        if session_id in self._sessions:
            self._sessions[session_id].on_heard(state)

    def on_watch(self, number: int, event: WatchEvent) -> None:
        """The host reports that a watch has fired."""
        self._watches[number](event)


class RemoteSession:
    """``store.Session``; see there for the meaning of each call."""

    def __init__(self, store: RemoteStore, session_id: int, timeout_ms: int) -> None:
        self._store = store
        self.session_id = session_id
        self.timeout_ms = timeout_ms
        self.state = SessionState.CONNECTED
        self._listeners: list[Callable[[SessionState], object]] = []
        self._heard_ms = store.clock.now_ms()

    @property
    def last_answer_ms(self) -> float:
        return self._heard_ms

    def begin(self) -> None:
        """Check regularly that it is there."""
        clock = self._store.clock
        clock.call_at(clock.now_ms() + self.timeout_ms / PINGS, self._ping)

    def _ping(self) -> None:
        if self.state is SessionState.CONNECTED and self._store.wire is not None:
            # The answer is a state, which says when it was heard.
            self._store.wire.note("ping", self.session_id)
            self.begin()

    def on_state(self, callback: Callable[[SessionState], object]) -> None:
        self._listeners.append(callback)

    def on_heard(self, state: SessionState) -> None:
        """The host has reported it."""
        self._heard_ms = self._store.clock.now_ms()
        if state is not self.state:
            self.state = state
            for listener in self._listeners:
                listener(state)

    async def get(self, path: str, watch: Watch | None = None) -> Znode:
        found: Znode = await self._ask("get", {"path": path}, watch)
        return found

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        found: Stat | None = await self._ask("exists", {"path": path}, watch)
        return found

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        found: list[str] = await self._ask("children", {"path": path}, watch)
        return found

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Created:
        given = {"path": path, "data": data, "ephemeral": ephemeral, "sequential": sequential}
        created: Created = await self._ask("create", given)
        return created

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        stat: Stat = await self._ask("set", {"path": path, "data": data, "version": version})
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._ask("delete", {"path": path, "version": version})

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        done: list[OperationResult] = await self._ask("multi", {"operations": list(operations)})
        return done

    async def sync(self) -> None:
        await self._ask("sync", {})

    async def close(self) -> None:
        if self.state is not SessionState.LOST:
            await self._ask("close", {})

    async def _ask(self, what: str, arguments: dict[str, Any], watch: Watch | None = None) -> Any:
        if self.state is SessionState.LOST:
            raise SessionExpired(f"session {self.session_id} is over")
        number = None if watch is None else self._store.number_of(watch)
        asked_ms = self._store.clock.now_ms()
        answer = await self._store.call(ASK, self.session_id, what, arguments, number)
        self._heard_ms = max(self._heard_ms, asked_ms)
        return answer
