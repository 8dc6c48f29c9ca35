"""A metadata store whose sessions can be paused, for a broker that is paused or dead.

Requests of a paused broker wait, and so do the store's events for it, in their order, as on the
connection of a stopped process. A dead broker sends and receives no more.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from ottla.coordinator.store.store import (
    ANY_VERSION,
    SESSION_TIMEOUT_MS,
    ConnectionLoss,
    Created,
    Operation,
    OperationResult,
    SessionState,
    Stat,
    Watch,
    WatchEvent,
    Znode,
)
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from ottla.coordinator.store.store import MetadataSession, Store

Answer = TypeVar("Answer")


class GatedStore:
    """``store.Store`` of one broker, behind a gate that is open, paused or permanently closed."""

    def __init__(self, below: Store) -> None:
        self._below = below
        self._is_held = False
        self._is_dead = False
        self._held: list[Callable[[], object]] = []
        self._waiting: list[asyncio.Future[None]] = []
        # The current session; earlier ones have ended.
        self.session_id = 0

    async def connect(self, timeout_ms: int = SESSION_TIMEOUT_MS) -> GatedSession:
        await self.passed()
        session = await self._below.connect(timeout_ms)
        self.session_id = session.session_id
        return GatedSession(self, session)

    async def passed(self) -> None:
        """Return when the gate is open. Raises ConnectionLoss."""
        while self._is_held and not self._is_dead:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        if self._is_dead:
            raise ConnectionLoss("the broker is dead")

    def tell(self, what: Callable[[], object]) -> None:
        """Call now, or when the gate opens; never for a dead broker."""
        if self._is_dead:
            return
        if self._is_held:
            self._held.append(what)
        else:
            what()

    def hold(self) -> None:
        """Close the gate until ``release``."""
        self._is_held = True

    def release(self) -> None:
        """Open the gate; delayed calls run first."""
        self._is_held = False
        held, self._held = self._held, []
        for what in held:
            what()
        self._wake()

    def kill(self) -> None:
        """Close the gate permanently."""
        self._is_dead = True
        self._held.clear()
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


class GatedSession:
    """``store.Session`` behind the gate; its calls are documented there."""

    def __init__(self, gate: GatedStore, below: MetadataSession) -> None:
        self._gate = gate
        self._below = below
        # As reported to the broker.
        self.state = below.state
        self._listeners: list[Callable[[SessionState], object]] = []
        below.on_state(lambda state: gate.tell(lambda: self._on_state(state)))

    @property
    def session_id(self) -> int:
        return self._below.session_id

    @property
    def timeout_ms(self) -> int:
        return self._below.timeout_ms

    @property
    def last_answer_ms(self) -> float:
        return self._below.last_answer_ms

    def on_state(self, callback: Callable[[SessionState], object]) -> None:
        self._listeners.append(callback)

    async def get(self, path: str, watch: Watch | None = None) -> Znode:
        return await self._do(lambda: self._below.get(path, self._gated(watch)))

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        return await self._do(lambda: self._below.exists(path, self._gated(watch)))

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return await self._do(lambda: self._below.children(path, self._gated(watch)))

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Created:
        return await self._do(
            lambda: self._below.create(path, data, ephemeral=ephemeral, sequential=sequential)
        )

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return await self._do(lambda: self._below.set(path, data, version))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._do(lambda: self._below.delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        return await self._do(lambda: self._below.multi(operations))

    async def sync(self) -> None:
        await self._do(self._below.sync)

    async def close(self) -> None:
        await self._do(self._below.close)

    async def _do(self, ask: Callable[[], Coroutine[object, object, Answer]]) -> Answer:
        await self._gate.passed()
        return await ask()

    def _gated(self, watch: Watch | None) -> Watch | None:
        return None if watch is None else _Gated(self._gate, watch)

    def _on_state(self, state: SessionState) -> None:
        self.state = state
        for listener in self._listeners:
            listener(state)


@dataclass(frozen=True, slots=True)
class _Gated:
    """A watch whose events go through the gate; equal to another one of the same function, so that
    the store treats both as the same watch."""

    gate: GatedStore
    watch: Watch

    def __call__(self, event: WatchEvent) -> None:
        self.gate.tell(lambda: self.watch(event))
