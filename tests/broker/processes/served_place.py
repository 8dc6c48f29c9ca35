"""An embedded store, its server and sessions on the other side of real sockets."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ottla.broker.engine.tasks import Tasks
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.coordinator.store.served.client import ServedStore
from ottla.coordinator.store.served.server import StoreServer
from ottla.protocol.ports import Address
from ottla.wire.clock import RealClock
from ottla.wire.unix import UnixNet
from tests.coordinator.store.disk import PowerCutDisk
from tests.coordinator.store.support import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ottla.coordinator.store.zookeeper_session import ZooKeeperSession

TIMEOUT_MS = 60_000


class Place:
    """A store that is served at a path."""

    def __init__(self, path: Path) -> None:
        self.address = Address(str(path), 0)
        self.tasks = Tasks()
        self.disk = PowerCutDisk()
        self.store: EmbeddedStore
        self.server: StoreServer

    async def begin(self) -> None:
        clock = RealClock()
        self.store = await EmbeddedStore.open(self.disk, clock, self.tasks.spawn, DIRECTORY)
        self.server = StoreServer(self.store, UnixNet(), clock, self.tasks.spawn)
        self.server.listen(self.address)

    async def connect(self, timeout_ms: int = TIMEOUT_MS, owner: int = 1) -> ZooKeeperSession:
        store = ServedStore(UnixNet(), RealClock(), self.tasks.spawn, self.address, owner)
        return await store.connect(timeout_ms)


@contextlib.asynccontextmanager
async def place_at(path: Path) -> AsyncIterator[Place]:
    """A place that is cleared up."""
    place = Place(path)
    await place.begin()
    try:
        yield place
    finally:
        await place.server.close()
        await place.tasks.stop()
