"""A clock that stands still, a supervisor for tests, and an embedded store made of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.tasks import Tasks
from ottla.coordinator.store.embedded import EmbeddedStore
from tests.coordinator.store.disk import PowerCutDisk

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.store.store import WatchEvent
    from ottla.protocol.ports import Timer

DIRECTORY = "/data/store"


class StillClock:
    """Moves only when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.wall = 1_700_000_000_000

    def now_ms(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return self.wall

    def call_at(self, deadline_ms: float, callback: Callable[[], object]) -> Timer:
        raise NotImplementedError

    async def sleep(self, delay_ms: float) -> None:
        raise NotImplementedError


class Heard:
    """A watch that remembers."""

    def __init__(self) -> None:
        self.events: list[WatchEvent] = []

    def __call__(self, event: WatchEvent) -> None:
        self.events.append(event)


async def open_store(disk: PowerCutDisk | None = None) -> EmbeddedStore:
    """An embedded store on that disk, or on an empty one."""
    return await EmbeddedStore.open(disk or PowerCutDisk(), StillClock(), Tasks().spawn, DIRECTORY)
