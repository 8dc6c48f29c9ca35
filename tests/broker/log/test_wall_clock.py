"""The note of the time: one writer at a time, though the broker stops while it is written."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.log.directories.directory_checkpoints import DirectoryCheckpoints
from ottla.broker.log.storage.checkpoints import decode_wall_clock, read_file
from ottla.broker.log.storage.health import DirectoryHealth
from ottla.broker.system.memory_disk import MemoryDisk

FOLDER = "/data"


class SlowDisk(MemoryDisk):
    """Holds renames back; like a thread, it finishes although its caller is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def rename(self, source: str, target: str) -> None:
        async def work() -> None:
            await self.gate.wait()
            await MemoryDisk.rename(self, source, target)

        await asyncio.shield(asyncio.ensure_future(work()))


async def test_a_stop_in_the_middle_of_a_note_costs_no_directory() -> None:
    """A broker that was stopped as soon as it was ready found its temporary file gone, took the
    directory for broken, and ended as if it had crashed."""
    disk = SlowDisk()
    disk.make_directory(FOLDER)
    health = DirectoryHealth(disk, FOLDER)
    home = cast("Any", SimpleNamespace(disk=disk, health=health))
    checkpoints = DirectoryCheckpoints(home, {})
    first = asyncio.ensure_future(checkpoints.save_wall_clock(1_000))
    await asyncio.sleep(0)
    first.cancel()
    second = asyncio.ensure_future(checkpoints.save_wall_clock(2_000))
    for _ in range(10):
        await asyncio.sleep(0)
    disk.gate.set()

    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    assert health.is_online
    assert decode_wall_clock(read_file(disk, f"{FOLDER}/wall-clock-checkpoint")) == 2_000
