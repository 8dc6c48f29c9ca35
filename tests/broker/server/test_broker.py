"""Starts that do not come through, and what they leave behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.cli.serving import serve
from ottla.broker.log.recovery.clean_mark import decode_mark
from ottla.broker.log.storage.checkpoints import read_file
from ottla.broker.server.broker import Broker, CannotStart
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.system.real_disk import RealOffload, RealProcess
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.protocol.ports import Ports
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet, RealRandom
from tests.broker.support.requests import batch, create, produced
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Disk

MARK = "/data/.kafka_cleanshutdown"
STOP_AT_ONCE_S = 60


class HastyProcess(RealProcess):
    """Asked to stop after so many turns of the event loop."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def on_stop(self, callback: Callable[[], object]) -> None:
        if self.turns == 0:
            callback()
            return
        self.turns -= 1
        asyncio.get_running_loop().call_soon(self.on_stop, callback)


async def served(disk: Disk, process: RealProcess) -> int:
    """The exit status of a broker that is asked to stop by that process."""
    ports = Ports(RealClock(), RealRandom(), RealNet(), disk, RealOffload(), process)
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/data"}
    config = parse_broker_config(settings).config
    return await serve(ports, lambda given: Broker(given, config), lambda _address: None)


async def filled_disk() -> MemoryDisk:
    """The disk of a broker that stopped cleanly."""
    disk = MemoryDisk()
    async with running_broker(disk=disk) as running, running.connect() as client:
        await create(client)
        await produced(client, batch(b"x"))
    return disk


async def test_a_stop_need_not_wait_for_a_long_start() -> None:
    """A recovery of minutes against 15 seconds in which SIGTERM has to be obeyed."""
    plan = FaultPlan()
    disk = FaultyDisk(await filled_disk(), plan, RealClock())
    plan.add(DiskFault(frozenset({"scan"}), 0, "/data", delay_ms=600_000))

    async with asyncio.timeout(STOP_AT_ONCE_S):
        assert await served(disk, HastyProcess(100)) == 0


@pytest.mark.parametrize("turns", [0, 1, 2, 5, 10, 20, 30, 40, 50, 60, 80, 100, 200])
async def test_a_start_that_was_broken_off_anywhere_can_be_repeated(turns: int) -> None:
    """Nothing stays locked and nothing is lost."""
    disk = await filled_disk()

    assert await served(disk, HastyProcess(turns)) == 0

    async with running_broker(disk=disk) as running, running.connect() as client:
        assert (await produced(client, batch(b"y"))).base_offset == 1


async def test_a_busy_port_does_not_spoil_the_clean_stop_before() -> None:
    """The mark would name no generation, and the controller take the replicas for damaged."""
    disk = await filled_disk()
    before = decode_mark(read_file(disk, MARK))
    async with running_broker() as running:
        busy = {"listeners": f"PLAINTEXT://{running.broker.address}"}

        with pytest.raises(CannotStart):
            await running_broker(busy, disk).__aenter__()

    assert before is not None
    assert decode_mark(read_file(disk, MARK)) == before
