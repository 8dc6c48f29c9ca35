"""Several brokers inside the test's own process: real sockets, memory for disks, one store."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ottla.broker.server.in_process import BrokersInProcess
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.system.real_disk import RealOffload, RealProcess
from ottla.protocol.ports import Disk, Ports
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet, RealRandom
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.broker.server.broker import Broker


class RunningCluster:
    """A running cluster as tests use it; brokers are found by their ids, 1 and so on."""

    def __init__(self, running: BrokersInProcess) -> None:
        self.running = running

    def __getitem__(self, node_id: int) -> Broker:
        return next(one for one in self.running.brokers if one.node_id == node_id)

    def connect(self, node_id: int) -> RawClient:
        """A connection to one of them, for ``async with``."""
        address = self[node_id].address
        return RawClient(address.host, address.port)

    @property
    def controller(self) -> Broker:
        """The one that is the controller, as the first one believes."""
        return self[self.running.brokers[0].metadata.controller_id]


def real_ports(disk: Disk | None = None) -> Ports:
    """This machine, with memory for its disk."""
    return Ports(
        clock=RealClock(),
        random=RealRandom(),
        net=RealNet(),
        disk=disk if disk is not None else MemoryDisk(),
        offload=RealOffload(),
        process=RealProcess(),
    )


@asynccontextmanager
async def running_cluster(
    count: int = 3, settings: dict[str, str] | None = None, disk: Disk | None = None
) -> AsyncIterator[RunningCluster]:
    """Start with Kafka's settings by name, stop at the end."""
    wanted = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/data", **(settings or {})}
    running = BrokersInProcess(real_ports(disk), wanted, count)
    await running.start()
    try:
        yield RunningCluster(running)
    finally:
        await running.stop()
