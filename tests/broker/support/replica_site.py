"""Several brokers' partitions and fetchers in one process; leaders answer over a wire of bytes.

The wire encodes and decodes real requests and answers. A leader is its PartitionRuntime and the few
lines that a fetch handler has; tests hold up, spoil and lose what goes over it.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.engine.purgatory import Purgatory
from ottla.broker.engine.tasks import Tasks
from ottla.broker.engine.timing_wheel import TimingWheel
from ottla.broker.following.fetcher import FetcherParts
from ottla.broker.following.fetcher_state import Pauses
from ottla.broker.following.fetchers import Fetchers
from ottla.broker.following.wire import FetchSettings, FollowerIdentity
from ottla.broker.log.directories.directories import DirectoriesConfig, LogDirectories
from ottla.broker.log.directories.opening import open_directories
from ottla.broker.metadata.topic_settings import topic_settings
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.replica.progress import FollowerLag
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.coordinator.configs.configs import ConfigSources, topic_config
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.protocol.records.builder import BatchOptions, encode_batch
from tests.broker.support.node import CountingRandom, HandClock, quiet
from tests.broker.support.replica_wire import TOPIC, TOPIC_ID, Sessions, Wires
from tests.broker.support.shard_site import InlineOffload

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.partitions.append_outcome import AppendOutcome
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.protocol.messages.fetch import (
        FetchRequest,
        FetchResponse,
    )
    from ottla.protocol.ports import Disk

NODES = (1, 2, 3)
WALL_MS = 1_700_000_000_000
PRODUCE_VERSION = 9


class Seams(NamedTuple):
    """The part of ``ports.Ports`` that logs need."""

    clock: HandClock
    random: CountingRandom
    disk: Disk
    offload: Any


class SiteClock(HandClock):
    """Lets fewer turns of the loop pass at each step; nothing here needs more."""

    async def advance(self, delay_ms: float) -> None:
        self.now += delay_ms
        while self._timers and self._timers[0][0] <= self.now:
            timer = heapq.heappop(self._timers)[2]
            if timer.callback is not None:
                timer.callback()
                await _turns()
        await _turns()


async def _turns() -> None:
    for _ in range(25):
        await asyncio.sleep(0)


class Replicas:
    """One broker's part: start, kill and start again over the same disk."""

    def __init__(self, node_id: int, site: Site, disk: Disk | None = None) -> None:
        self.node_id = node_id
        self.site = site
        self.disk = disk if disk is not None else MemoryDisk()
        self.broker_epoch = 0
        self.is_running = False
        self.logs: LogDirectories | None = None

    async def start(self) -> None:
        site, self.broker_epoch = self.site, self.broker_epoch + 1
        self.tasks = Tasks()
        self.waiting = Purgatory(TimingWheel(site.clock), asyncio.get_running_loop().call_soon)
        self.partitions = Partitions(
            self.node_id,
            lambda _topic: topic_settings(topic_config(site.configs, ConfigSources())),
            self.waiting,
            site.clock,
            FollowerLag(30_000),
        )
        parts = FetcherParts(
            Wires(self.node_id, site),
            lambda: FollowerIdentity(self.node_id, self.broker_epoch),
            site.clock,
            self.tasks,
            site.manner,
            Pauses(20, 100),
        )
        self.fetchers = Fetchers(parts, site.fetcher_count)
        self.partitions.on_following = self.fetchers.on_role
        self.partitions.on_settings = self.fetchers.on_settings
        config = DirectoriesConfig(("/data",), self.node_id, "cluster")
        seams = Seams(site.clock, CountingRandom(), self.disk, InlineOffload())
        self.logs = await open_directories(seams, config, self.partitions.open_as)
        self.partitions.attach(self.logs)
        self.is_running = True

    async def kill(self) -> None:
        """The process is gone; what it has written is there."""
        self.is_running = False
        await self.tasks.stop()
        assert self.tasks.crash_count == 0
        assert self.logs is not None
        for lock in self.logs._locks:
            lock.release()

    async def stop(self) -> None:
        """Stops all parts and checks that nothing is left."""
        self.is_running = False
        self.partitions.close()
        await self.fetchers.stop()
        self.waiting.close()
        await self.tasks.stop()
        assert self.tasks.crash_count == 0
        assert self.logs is not None
        await self.logs.close(self.broker_epoch)

    def partition(self, index: int = 0) -> PartitionRuntime:
        found = self.partitions.find(TOPIC, index)
        assert found is not None
        return found

    def content(self, index: int = 0) -> bytes:
        """All bytes of the partition's log."""
        log = self.partition(index).log
        return b"".join(one.file.pread(one.size_bytes, 0) for one in log.segments if one.size_bytes)

    def produce(
        self, *values: bytes, index: int = 0, acks: int = 1, **options: Any
    ) -> AppendOutcome:
        """Append as a producer's request would, a batch with these values."""
        records = [(WALL_MS, None, value, ()) for value in values]
        batch = bytearray(encode_batch(records, BatchOptions(**options)))
        partition = self.partition(index)
        return partition.write(partition.judge(batch, PRODUCE_VERSION), acks)


class Site:
    """The brokers, the clock and the wires between them."""

    def __init__(self, *, configs: dict[str, str] | None = None, fetcher_count: int = 1) -> None:
        self.clock = SiteClock()
        self.configs = configs or {}
        self.fetcher_count = fetcher_count
        self.manner = FetchSettings()
        self.version = 15
        self.nodes = {node_id: Replicas(node_id, self) for node_id in NODES}
        self.requests: list[tuple[int, int, FetchRequest]] = []
        self.connection_count = 0
        # Called with (from, to, answer) before the answer is delivered; may change or hold it.
        self.on_answer: Callable[[int, int, FetchResponse], Any] | None = None
        self.cut: set[tuple[int, int]] = set()
        # Leaders give sessions (KIP-227).
        self.gives_sessions = False
        self.sessions = Sessions()

    async def start(self, *node_ids: int) -> None:
        for node_id in node_ids or NODES:
            await self.nodes[node_id].start()

    async def stop(self) -> None:
        for node in self.nodes.values():
            if node.is_running:
                await node.stop()

    async def lead(
        self,
        leader: int,
        leader_epoch: int = 0,
        *,
        isr: tuple[int, ...] = NODES,
        to: tuple[int, ...] | None = None,
        indexes: tuple[int, ...] = (0,),
        partition_epoch: int | None = None,
    ) -> None:
        """The controller says who leads, to those who live (or to a few of them)."""
        states = [
            LeaderAndIsrPartitionState(
                partition_index=index,
                leader=leader,
                leader_epoch=leader_epoch,
                partition_epoch=leader_epoch if partition_epoch is None else partition_epoch,
                isr=list(isr),
                replicas=list(NODES),
                is_new=leader_epoch == 0,
            )
            for index in indexes
        ]
        topic = LeaderAndIsrTopicState(topic_name=TOPIC, topic_id=TOPIC_ID, partition_states=states)
        # The leader first, as a rule; others find it in office then.
        for node_id in sorted(to or NODES, key=lambda one: one != leader):
            node = self.nodes[node_id]
            if node.is_running:
                request = LeaderAndIsrRequest(controller_id=1, topic_states=[topic])
                answer = await node.partitions.apply_leader_and_isr(request)
                errors = [part.error_code for part in answer.topics[0].partition_errors]
                assert errors == [ErrorCode.NONE] * len(indexes)

    async def drop(self, node_id: int, leader_epoch: int, *, delete: bool = False) -> None:
        """The controller takes partition 0 away from a broker."""
        state = StopReplicaPartitionState(
            partition_index=0, leader_epoch=leader_epoch, delete_partition=delete
        )
        topic = StopReplicaTopicState(topic_name=TOPIC, partition_states=[state])
        await self.nodes[node_id].partitions.apply_stop_replica(
            StopReplicaRequest(topic_states=[topic])
        )

    async def settle(self, ms: float = 2_000.0) -> None:
        """Let everything happen that needs no event from outside."""
        for _ in range(max(1, int(ms / 10))):
            await self.clock.advance(10)
        await quiet()

    def contents(self) -> set[bytes]:
        """The different contents of the logs of those who run; one is what it should be."""
        return self.contents_of(*(one for one, node in self.nodes.items() if node.is_running))

    def contents_of(self, *node_ids: int) -> set[bytes]:
        """The different contents of their logs."""
        return {self.nodes[node_id].content() for node_id in node_ids}


def values(count: int, start: int = 0) -> list[bytes]:
    """Values that are told apart."""
    return [b"value %d" % number for number in itertools.islice(itertools.count(start), count)]


def where(index: int = 0) -> TopicPartition:
    return TopicPartition(TOPIC, index)


def starts_and_ends(site: Site) -> set[tuple[int, int, int]]:
    """Log start, high watermark and log end of those who run."""
    replicas = [node.partition().replica for node in site.nodes.values() if node.is_running]
    return {
        (replica.log_start_offset, replica.high_watermark, replica.log_end_offset)
        for replica in replicas
    }
