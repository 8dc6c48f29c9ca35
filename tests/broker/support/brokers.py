"""Several real brokers in one process: sockets of this machine, disks in memory, one store.

A kill ends a broker without any farewell: its session runs out in the store, its connections break,
and the next life finds the disk as it was left, without the mark of a clean stop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.engine.tasks import Tasks
from ottla.broker.server.broker import Broker
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.system.real_disk import RealOffload, RealProcess
from ottla.coordinator.configs.broker_configs import for_embedded_store, parse_broker_config
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.protocol.ports import Ports
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet, RealRandom

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.broker.partitions.partition import PartitionRuntime

DATA = "/data"
# Soon enough for tests, late enough for a busy machine.
LAG_TIME_MS = 2_000


class Brokers:
    """A cluster whose members can be killed and started again."""

    def __init__(self, count: int, settings: Mapping[str, str] | None = None) -> None:
        self.count = count
        self.disks = {node_id: MemoryDisk() for node_id in range(1, count + 1)}
        self.alive: dict[int, Broker] = {}
        self._settings = settings or {}
        self._tasks = Tasks()
        self._store: EmbeddedStore | None = None

    async def start(self) -> None:
        self._store = await EmbeddedStore.open(
            MemoryDisk(), RealClock(), self._tasks.spawn, "/store"
        )
        await asyncio.gather(*(self.start_one(node_id) for node_id in self.disks))
        for broker in self.alive.values():
            assert await broker.metadata.wait_for(
                lambda image: len(image.brokers) == self.count, 10_000
            )

    async def start_one(self, node_id: int) -> Broker:
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": DATA,
            "broker.id": str(node_id),
            "replica.lag.time.max.ms": str(LAG_TIME_MS),
            **self._settings,
        }
        config = for_embedded_store(parse_broker_config(settings).config, self.count)
        ports = Ports(
            RealClock(),
            RealRandom(),
            RealNet(),
            self.disks[node_id],
            RealOffload(),
            RealProcess(),
        )
        broker = Broker(ports, config, self._store)
        await broker.start()
        self.alive[node_id] = broker
        return broker

    async def kill(self, node_id: int, *, expire: bool = True) -> None:
        """End it without a word. With ``expire`` the store notices at once."""
        broker = self.alive.pop(node_id)
        broker.network.stop_accepting()
        for tasks in (broker.parts.shared.chores, broker.parts.shared.tasks):
            await tasks.stop()
        await broker.network.stop(0)
        broker.parts.shared.waiting.close()
        broker.parts.channel.close()
        assert broker.state.logs is not None
        for lock in broker.state.logs._locks:
            lock.release()
        assert broker.state.lifecycle is not None
        assert self._store is not None
        if expire:
            await self._store.expire(broker.state.lifecycle.session.session_id)

    async def stop_one(self, node_id: int) -> None:
        await self.alive.pop(node_id).stop()

    async def stop(self) -> None:
        for broker in self.alive.values():
            assert not broker.has_failed
        await asyncio.gather(*(broker.stop() for broker in self.alive.values()))
        assert self._store is not None
        await self._store.close()
        await self._tasks.stop()

    @property
    def bootstrap(self) -> list[str]:
        return [str(broker.address) for broker in self.alive.values()]

    def partition(self, node_id: int, topic: str, index: int = 0) -> PartitionRuntime:
        found = self.alive[node_id].partitions.find(topic, index)
        assert found is not None
        return found

    def content(self, node_id: int, topic: str, index: int = 0) -> bytes:
        """All bytes of a replica's log."""
        segments = self.partition(node_id, topic, index).log.segments
        return b"".join(one.file.pread(one.size_bytes, 0) for one in segments if one.size_bytes)

    def leader(self, topic: str, index: int = 0) -> int:
        """Who leads, as the living agree; -1 while they do not."""
        leaders = {broker.metadata.leader_of(topic, index)[0] for broker in self.alive.values()}
        return leaders.pop() if len(leaders) == 1 else -1

    async def until(self, holds: object, timeout_s: float = 60.0) -> None:
        """Wait for a condition (a function); fail with its name otherwise."""
        assert callable(holds)
        async with asyncio.timeout(timeout_s):
            while not holds():
                await asyncio.sleep(0.02)

    async def until_equal(self, topic: str, index: int = 0) -> None:
        """Wait until all living replicas have the same, all of it committed."""

        def is_equal() -> bool:
            replicas = [self.partition(one, topic, index).replica for one in self.alive]
            ends = {replica.log_end_offset for replica in replicas}
            marks = {replica.high_watermark for replica in replicas}
            return len(ends | marks) == 1

        await self.until(is_equal)

    async def until_in_sync(self, topic: str, count: int, index: int = 0) -> None:
        """Wait until that many are in sync, as the leader sees it."""

        def is_in_sync() -> bool:
            leader = self.leader(topic, index)
            if leader not in self.alive:
                return False
            leading = self.partition(leader, topic, index).replica.leading
            return leading is not None and len(leading.in_sync.committed) == count

        await self.until(is_in_sync)
