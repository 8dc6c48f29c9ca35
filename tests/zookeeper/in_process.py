"""Brokers in the test's own process, each with its own session at a real ZooKeeper."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient

from ottla.broker.server.broker import Broker
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.coordinator.configs.broker_configs import parse_broker_config
from tests.support.cluster import real_ports
from tests.support.raw_client import RawClient
from tests.zookeeper.shared import fresh_place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

PATIENCE_S = 90.0
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "zookeeper.connection.timeout.ms": "60000",
    "log.segment.delete.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}


async def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds; fails after a time that no busy machine needs."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.02)


class Ensemble:
    """Brokers by their ids, and a foreign client that reads and writes the tree."""

    def __init__(self, folder: Path) -> None:
        self.place = fresh_place()
        self.folder = folder
        self.brokers: dict[int, Broker] = {}
        self._offload = RealOffload(4)
        host, _, chroot = self.place.partition("/")
        whole = KazooClient(host)
        whole.start()
        whole.ensure_path(f"/{chroot}")
        whole.stop()
        whole.close()
        self.tree = KazooClient(self.place)
        self.tree.start()

    async def start(self, *node_ids: int, **settings: str) -> None:
        """Start these brokers, one after the other: the first one becomes the controller."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        for node_id in node_ids:
            own = {"broker.id": str(node_id), "log.dirs": f"{self.folder}/{node_id}"}
            wanted = {**SETTINGS, "zookeeper.connect": self.place, **named, **own}
            config = parse_broker_config(wanted).config
            broker = Broker(real_ports(RealDisk(self._offload)), config)
            await broker.start()
            self.brokers[node_id] = broker

    async def stop(self, node_id: int) -> None:
        """Stop one in order."""
        await self.brokers.pop(node_id).stop()

    async def close(self) -> None:
        """Stop all of them, and leave. The first one last: it may be the controller."""
        for node_id in sorted(self.brokers, reverse=True):
            await self.brokers[node_id].stop(is_last=True)
        self._offload.close()
        self.tree.stop()
        self.tree.close()

    def connect(self, node_id: int) -> RawClient:
        """A connection to one of them, for ``async with``."""
        address = self.brokers[node_id].address
        return RawClient(address.host, address.port)

    def read(self, path: str) -> Any:
        """The JSON value of a znode; None if there is none."""
        return json.loads(self.tree.get(path)[0]) if self.tree.exists(path) else None

    def write(self, path: str, value: Any) -> None:
        """Create a znode as Kafka's older tools do."""
        self.tree.create(path, json.dumps(value, separators=(",", ":")).encode())

    def state(self, topic: str, partition: int = 0) -> Any:
        """The state znode of a partition."""
        return self.read(f"/brokers/topics/{topic}/partitions/{partition}/state")

    def holders(self, directory: str) -> list[int]:
        """The brokers that have such a directory."""
        return sorted(int(one.parent.name) for one in self.folder.glob(f"*/{directory}*"))

    async def tidy(self) -> None:
        """Let every broker remove now what it has renamed."""
        for broker in self.brokers.values():
            await broker.parts.partitions.logs.tidy(broker.ports.clock.now_ms() + 1)


@asynccontextmanager
async def ensemble(folder: Path) -> AsyncIterator[Ensemble]:
    """Stops what the test has started."""
    async with AsyncExitStack() as stack:
        made = Ensemble(folder)
        stack.push_async_callback(made.close)
        yield made
