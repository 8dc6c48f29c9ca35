"""The embedded store over the disks that ship: the contract holds on each, files are left whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.engine.tasks import Tasks
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.coordinator.store.embedded import EmbeddedStore
from tests.coordinator.store.contract import StoreContract
from tests.coordinator.store.support import StillClock
from tests.coordinator.store.test_embedded import EmbeddedWorld

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.protocol.ports import Disk


async def open_on(disk: Disk, directory: str) -> EmbeddedStore:
    return await EmbeddedStore.open(disk, StillClock(), Tasks().spawn, directory)


class TestOnRealDisk(StoreContract):
    """The contract, with real files and real flushes."""

    @pytest.fixture
    async def world(self, tmp_path: Path) -> EmbeddedWorld:
        """A store in a fresh directory."""
        return EmbeddedWorld(await open_on(RealDisk(RealOffload()), str(tmp_path)))


class TestInMemory(StoreContract):
    """The contract, for brokers that leave nothing behind."""

    @pytest.fixture
    async def world(self) -> EmbeddedWorld:
        """A store in memory."""
        return EmbeddedWorld(await open_on(MemoryDisk(), "/store"))


async def test_a_store_on_a_real_disk_opens_again(tmp_path: Path) -> None:
    """Rename, locks and flushes are the platform's; only they can show that they fit."""
    disk = RealDisk(RealOffload())
    for life in range(3):
        store = await open_on(disk, str(tmp_path))
        session = await store.connect()
        assert await session.children("/") == [f"n{number}" for number in range(life)]
        await session.create(f"/n{life}", b"x" * 600_000)
        for number in range(4):
            await session.set(f"/n{life}", b"%d" % number + b"x" * 600_000)
        with pytest.raises(BlockingIOError):
            await open_on(disk, str(tmp_path))
        await store.close()

    assert await disk.scan(str(tmp_path)) == ["store.journal", "store.lock"]
    assert disk.open(f"{tmp_path}/store.journal").size_bytes < 6_000_000
