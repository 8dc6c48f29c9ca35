"""Sessions of the embedded store behind a link that delays, is cut, and dies with its process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.coordinator.store.store import ConnectionLoss, SessionExpired, SessionState

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Sequence

    from ottla.coordinator.store.embedded import EmbeddedSession, EmbeddedStore
    from ottla.coordinator.store.store import (
        Created,
        Operation,
        OperationResult,
        Stat,
        Watch,
        WatchEvent,
        Znode,
    )
    from ottla.protocol.ports import Clock, Random

Answer = TypeVar("Answer")
LATENCY_MS_MAX = 20


class Around(NamedTuple):
    """``end`` is set at the end of the story: then questions of dead processes fail."""

    clock: Clock
    random: Random
    end: asyncio.Event


class FarSession:
    """A session as a member sees it that is another machine's."""

    def __init__(self, inner: EmbeddedSession, store: EmbeddedStore, around: Around) -> None:
        self._inner = inner
        self._store = store
        self._clock, self._random, self._end = around
        self._listeners: list[Callable[[SessionState], object]] = []
        self._cut_since_ms: float | None = None
        self._is_dead = False
        self.session_id = inner.session_id
        self.timeout_ms = inner.timeout_ms
        self.state = SessionState.CONNECTED

    @property
    def last_answer_ms(self) -> float:
        return self._clock.now_ms() if self._cut_since_ms is None else self._cut_since_ms

    def on_state(self, callback: Callable[[SessionState], object]) -> None:
        self._listeners.append(callback)

    def cut(self) -> bool:
        """No answer comes any more, and the watches are gone; False if there is no link to cut."""
        if self.state is not SessionState.CONNECTED:
            return False
        self._cut_since_ms = self._clock.now_ms()
        self._inner.watches.clear()
        self._tell(SessionState.SUSPENDED)
        return True

    async def heal(self) -> None:
        """The link is back: the session goes on, or is found to be over."""
        if self.state is SessionState.SUSPENDED:
            is_over = self._inner.state is SessionState.LOST
            self._cut_since_ms = None if not is_over else self._cut_since_ms
            self._tell(SessionState.LOST if is_over else SessionState.CONNECTED)

    async def expire(self) -> None:
        """The store ends the session, as it does after the timeout."""
        await self._store.expire(self._inner.session_id)

    def die(self) -> None:
        """The process is gone: nothing that it asked is answered."""
        self._is_dead = True
        self._inner.watches.clear()

    def _tell(self, state: SessionState) -> None:
        self.state = state
        if not self._is_dead:
            for listener in self._listeners:
                listener(state)

    async def _far(self, work: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """The way there and the way back; a cut loses the question or the answer."""
        await self._way()
        answer = await work()
        await self._way()
        return answer

    async def _way(self) -> None:
        await self._clock.sleep(self._random.below(LATENCY_MS_MAX))
        if self._is_dead:
            await self._end.wait()
            raise SessionExpired("the story is over")
        if self.state is SessionState.LOST:
            raise SessionExpired("the session is over")
        if self.state is SessionState.SUSPENDED:
            raise ConnectionLoss("the link is cut")

    def _heard(self, watch: Watch | None) -> Watch | None:
        return None if watch is None else _Heard(self, watch)

    async def get(self, path: str, watch: Watch | None = None) -> Znode:
        return await self._far(lambda: self._inner.get(path, self._heard(watch)))

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        return await self._far(lambda: self._inner.exists(path, self._heard(watch)))

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return await self._far(lambda: self._inner.children(path, self._heard(watch)))

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Created:
        return await self._far(
            lambda: self._inner.create(path, data, ephemeral=ephemeral, sequential=sequential)
        )

    async def set(self, path: str, data: bytes, version: int = -1) -> Stat:
        return await self._far(lambda: self._inner.set(path, data, version))

    async def delete(self, path: str, version: int = -1) -> None:
        await self._far(lambda: self._inner.delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        return await self._far(lambda: self._inner.multi(operations))

    async def sync(self) -> None:
        await self._far(self._inner.sync)

    async def close(self) -> None:
        if not self._is_dead:
            await self._inner.close()
            self.state = SessionState.LOST


class _Heard:
    """A watch that a dead or cut process does not hear."""

    def __init__(self, session: FarSession, watch: Watch) -> None:
        self._session = session
        self._watch = watch

    def __call__(self, event: WatchEvent) -> None:
        if not self._session._is_dead and self._session.state is SessionState.CONNECTED:
            self._watch(event)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Heard) and self._watch == other._watch

    def __hash__(self) -> int:
        return hash(self._watch)
