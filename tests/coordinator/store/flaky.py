"""A session whose connection fails as the test wants: lost requests, lost answers, suspension.

Drops watches at suspension, as kazoo does (C-07).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ottla.coordinator.store.store import (
    ANY_VERSION,
    SESSION_TIMEOUT_MS,
    ConnectionLoss,
    Create,
    Created,
    Delete,
    GroupFailed,
    Operation,
    OperationResult,
    Replace,
    SessionState,
    Stat,
    Watch,
    WatchEvent,
    Znode,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ottla.coordinator.store.store import MetadataSession, Store

Answer = TypeVar("Answer")


class FlakySession:
    """Passes everything on while it may."""

    def __init__(self, inner: MetadataSession) -> None:
        self.inner = inner
        self.state = SessionState.CONNECTED
        self._listeners: list[Callable[[SessionState], object]] = []
        self._suspensions = 0
        # How many of the coming writes are done without their answer arriving, or not done.
        self.answers_to_lose = 0
        self.requests_to_lose = 0
        self.written: list[tuple[Operation, ...]] = []
        # Paths that were read, and those of them that were watched as well.
        self.read: list[str] = []
        self.watched: list[str] = []
        inner.on_state(self._on_state)

    @property
    def session_id(self) -> int:
        return self.inner.session_id

    @property
    def timeout_ms(self) -> int:
        return self.inner.timeout_ms

    @property
    def last_answer_ms(self) -> float:
        return self.inner.last_answer_ms

    def on_state(self, callback: Callable[[SessionState], object]) -> None:
        self._listeners.append(callback)

    def suspend(self) -> None:
        """The connection is gone, the session perhaps not."""
        self._suspensions += 1
        self._on_state(SessionState.SUSPENDED)

    def resume(self) -> None:
        """Connected again, in the same session."""
        self._on_state(SessionState.CONNECTED)

    async def get(self, path: str, watch: Watch | None = None) -> Znode:
        self._note(path, watch)
        return await self.inner.get(path, self._kept(watch))

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        self._note(path, watch)
        return await self.inner.exists(path, self._kept(watch))

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        self._note(path, watch)
        return await self.inner.children(path, self._kept(watch))

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Created:
        made = Create(path, data, ephemeral, sequential)
        return await self._lossy(
            [made],
            lambda: self.inner.create(path, data, ephemeral=ephemeral, sequential=sequential),
        )

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        result = await self._one(Replace(path, data, version))
        assert isinstance(result, Stat)
        return result

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._one(Delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        return await self._lossy(operations, lambda: self.inner.multi(operations))

    async def _lossy(
        self, operations: Sequence[Operation], work: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        self._refuse_if_suspended()
        if self.requests_to_lose > 0:
            self.requests_to_lose -= 1
            raise ConnectionLoss("the request was lost")
        self.written.append(tuple(operations))
        result = await work()
        if self.answers_to_lose > 0:
            self.answers_to_lose -= 1
            raise ConnectionLoss("the answer was lost")
        return result

    async def sync(self) -> None:
        self._refuse_if_suspended()
        await self.inner.sync()

    async def close(self) -> None:
        await self.inner.close()

    async def _one(self, operation: Operation) -> OperationResult:
        try:
            return (await self.multi([operation]))[0]
        except GroupFailed as failed:
            raise failed.error from None

    def _on_state(self, state: SessionState) -> None:
        self.state = state
        for listener in self._listeners:
            listener(state)

    def _note(self, path: str, watch: Watch | None) -> None:
        self._refuse_if_suspended()
        self.read.append(path)
        if watch is not None:
            self.watched.append(path)

    def _refuse_if_suspended(self) -> None:
        if self.state is SessionState.SUSPENDED:
            raise ConnectionLoss("no connection")

    def _kept(self, watch: Watch | None) -> Watch | None:
        if watch is None:
            return None
        armed_at = self._suspensions

        def pass_on(event: WatchEvent) -> None:
            if self._suspensions == armed_at:
                watch(event)

        return pass_on


class FlakyStore:
    """Gives out flaky sessions and remembers them."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.sessions: list[FlakySession] = []

    async def connect(self, timeout_ms: int = SESSION_TIMEOUT_MS) -> FlakySession:
        session = FlakySession(await self.inner.connect(timeout_ms))
        self.sessions.append(session)
        return session
