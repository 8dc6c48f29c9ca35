"""A store on a disk that is full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.engine.tasks import Tasks
from ottla.broker.server.stores import CannotStart, open_embedded
from tests.coordinator.store.disk import PowerCutDisk
from tests.support.cluster import real_ports

if TYPE_CHECKING:
    from ottla.coordinator.store.embedded import EmbeddedStore


async def opened(disk: PowerCutDisk) -> EmbeddedStore:
    """The store of that disk."""
    ports = real_ports()._replace(disk=disk)
    return await open_embedded(ports, Tasks(), "/data", lambda _error: None)


async def test_a_full_disk_at_the_start_is_said_in_a_sentence() -> None:
    """The sessions of the last run cannot be ended there: a person makes room, and starts again."""
    disk = PowerCutDisk()
    await (await opened(disk)).connect()
    after = disk.after_power_cut()
    after.free = 0
    with pytest.raises(CannotStart, match="cannot use /data: the journal cannot grow"):
        await opened(after)

    after.free = 1 << 20
    assert not (await opened(after)).read_tree().sessions


async def test_a_stop_on_a_full_disk_frees_the_directory() -> None:
    """The next start ends the sessions."""
    disk = PowerCutDisk()
    store = await opened(disk)
    await store.connect()
    disk.free = 0
    await store.close()
    disk.free = 1 << 20

    assert not (await opened(disk)).read_tree().sessions
