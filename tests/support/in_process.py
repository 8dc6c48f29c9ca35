"""A whole broker inside the test's own process, on a free port, its disk in memory."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ottla.broker.server.broker import Broker
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.system.real_disk import RealOffload, RealProcess
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.protocol.ports import Clock, Disk, Net, Ports
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet, RealRandom
from tests.support.hostile.secret_scan import watched
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from ottla.broker.server.first_users import FirstUser


class RunningBroker:
    """A running broker as tests use it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def connect(self) -> RawClient:
        """A connection for ``async with``."""
        address = self.broker.address
        return RawClient(address.host, address.port)


@asynccontextmanager
async def running_broker(
    settings: dict[str, str] | None = None,
    disk: Disk | None = None,
    clock: Clock | None = None,
    net: Net | None = None,
    first_users: Sequence[FirstUser] = (),
) -> AsyncIterator[RunningBroker]:
    """Start with Kafka's settings by name, stop at the end."""
    wanted = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/data", **(settings or {})}
    ports = Ports(
        clock=clock if clock is not None else RealClock(),
        random=RealRandom(),
        net=net if net is not None else RealNet(),
        disk=disk if disk is not None else MemoryDisk(),
        offload=RealOffload(),
        process=RealProcess(),
    )
    config = parse_broker_config(wanted).config
    broker = Broker(ports, config)
    broker.first_users = first_users
    with watched(config, ports.disk, first_users):
        await broker.start()
        try:
            yield RunningBroker(broker)
        finally:
            await broker.stop()
