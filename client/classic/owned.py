"""Common parts of the classic clients: context managers, and following ZooKeeper's content."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Self

from ottla.client.sync.face import Face
from ottla.coordinator.store.store import SessionState, StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from ottla.coordinator.store.store import WatchEvent
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.classic")

RETRY_MS = 500.0


class ClassicClient(Face):
    """A blocking client that a ``with`` block ends."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the client. A second call does nothing."""
        raise NotImplementedError


class StoreChanges:
    """Reads again after each change in the store, and after each lost session."""

    def __init__(self, read: Callable[[], Awaitable[None]], clock: Clock, subject: str) -> None:
        self._read = read
        self._clock = clock
        self._subject = subject
        self._changed = asyncio.Event()

    def note(self) -> None:
        """Request another read soon."""
        self._changed.set()

    def on_event(self, _event: WatchEvent) -> None:
        """A watch has fired."""
        self._changed.set()

    def on_state(self, state: SessionState) -> None:
        """Watches end with their session, which is in doubt while it is suspended."""
        if state is not SessionState.SUSPENDED:
            self._changed.set()

    async def follow(self) -> None:
        """Run until it is cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._read()
            except StoreError as error:
                logger.info("%s is read again after: %s", self._subject, error)
                await self._clock.sleep(RETRY_MS)
                self._changed.set()
