"""A partition led by broker 1 over a real log, its followers played by the test, and a store.

The clock moves by hand; the store's connection fails as the test wants.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.engine.purgatory import Purgatory
from ottla.broker.engine.tasks import Tasks
from ottla.broker.engine.timing_wheel import TimingWheel
from ottla.broker.log.partition_log import PartitionLog
from ottla.broker.log.recovery.loading import Known, load_log
from ottla.broker.log.storage.directory_services import LogDirectoryServices, OpenSegments
from ottla.broker.log.storage.health import DirectoryHealth
from ottla.broker.metadata.metadata import MetadataCache
from ottla.broker.metadata.topic_settings import topic_settings
from ottla.broker.partitions.follower_reads import FollowerReads
from ottla.broker.partitions.isr_writer import IsrWriter
from ottla.broker.partitions.lease import Lease
from ottla.broker.partitions.partition import PartitionRuntime
from ottla.broker.partitions.partition_read import FetchPlan, PartitionFetch
from ottla.broker.partitions.read_barriers import ReadBarriers
from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.replica.leading import PartitionLeadership, ReplicaLimits
from ottla.broker.replica.partition import Replica
from ottla.broker.replica.roles import LogBounds
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.coordinator.configs.configs import ConfigSources, topic_config
from ottla.coordinator.metadata.changes import BrokerChanged
from ottla.coordinator.metadata.image import BrokerRegistration
from ottla.coordinator.store import paths
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.protocol.errors import ErrorCode
from tests.broker.log.crash_disk import CrashDisk
from tests.broker.log.log_under_test import DIRECTORY, PARTITION, seams_of
from tests.broker.support.node import DIRECTORY as STORE
from tests.broker.support.node import HandClock, quiet
from tests.broker.support.requests import batch
from tests.coordinator.store.flaky import FlakySession, FlakyStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.broker.partitions.append_outcome import AppendOutcome
    from ottla.coordinator.store.paths import StatePayload

LAG_MS = 10_000.0
EPOCH = 5
CONTROLLER_EPOCH = 3
STATE = paths.state(*PARTITION)
# Broker epochs: the versions of the generations in the store.
EPOCHS = {1: 1, 2: 1, 3: 1}


class LeaderSite:
    """``await open(...)`` makes it; ``await close()`` checks that no task has died."""

    def __init__(self, clock: HandClock, store: EmbeddedStore) -> None:
        self.clock = clock
        self.store = store
        self.flaky = FlakyStore(store)
        self.crashes: list[str] = []
        self.tasks = Tasks(lambda name, _error: self.crashes.append(name))
        self.metadata = MetadataCache(clock)
        self.metadata.take(BrokerChanged(BrokerRegistration(node, ())) for node in EPOCHS)
        self.lease = Lease()
        loop = asyncio.get_running_loop()
        self.waiting = Purgatory(TimingWheel(clock), loop.call_soon)
        self.barriers = ReadBarriers(self.waiting, clock)
        self.partitions: list[PartitionRuntime] = []
        self.followers = FollowerReads(self.waiting, clock, self.barriers.proofs)
        self.writer = IsrWriter(self, self.metadata, clock, self.tasks, LAG_MS)

    def __iter__(self) -> Iterator[PartitionRuntime]:
        return iter(self.partitions)

    @property
    def one(self) -> PartitionRuntime:
        return self.partitions[0]

    @property
    def session(self) -> FlakySession:
        return self.flaky.sessions[-1]

    # ---- making ----

    async def prepare(self, isr: tuple[int, ...]) -> None:
        """Writes what the controller has left in the store before the partition has a leader."""
        session = await self.store.connect()
        topic = PARTITION.topic
        for path in (
            *paths.PERMANENT_PATHS,
            paths.topic(topic),
            paths.partitions(topic),
            paths.partition(*PARTITION),
            *(paths.generation(node) for node in EPOCHS),
        ):
            await session.create(path)
        for node in EPOCHS:
            await session.set(paths.generation(node), b"")
        state = paths.StatePayload(1, EPOCH, isr, CONTROLLER_EPOCH)
        await session.create(STATE, paths.build_state(state))

    async def enter(self) -> None:
        """A new session, as the lifecycle begins one."""
        session = await self.flaky.connect()
        self.lease.enter(session)
        await self.writer.begin(session)

    async def suspend(self) -> None:
        self.session.suspend()
        await self.writer.end()

    async def resume(self) -> None:
        self.session.resume()
        await self.writer.begin(self.session)

    async def lead(self, leadership: PartitionLeadership, min_insync: int = 1) -> None:
        disk = CrashDisk()
        disk.make_directory(DIRECTORY)
        history = ReplicaHistory()
        topic = topic_settings(
            topic_config({"min.insync.replicas": str(min_insync)}, ConfigSources())
        )
        home = LogDirectoryServices(
            seams_of(disk, self.clock), DirectoryHealth(disk, "/data"), OpenSegments()
        )
        log = PartitionLog(home, DIRECTORY, PARTITION, None, topic.log, history)
        await load_log(log, Known())
        replica = Replica(1, history, ReplicaLimits(min_insync, LAG_MS), LogBounds(0, 0, 0))
        one = PartitionRuntime(PARTITION, log, replica, topic, self.waiting, self.clock, self.lease)
        one.on_may_join = self.writer.look_at
        self.partitions.append(one)
        await one.become(leadership)

    async def close(self) -> None:
        await self.tasks.stop()
        assert self.crashes == []

    # ---- what happens ----

    def write(self, acks: int = 1) -> AppendOutcome:
        """Appends one record."""
        return self.one.write(self.one.judge(bytearray(batch(b"x")), 9), acks)

    def fetch(
        self, node: int, offset: int | None = None, broker_epoch: int | None = None
    ) -> ErrorCode:
        """A follower asks for what comes after its log; the log end unless said otherwise."""
        end = self.one.log.log_end_offset if offset is None else offset
        epoch = EPOCHS[node] if broker_epoch is None else broker_epoch
        wanted = PartitionFetch(*PARTITION, end, 1 << 20, EPOCH, -1, ErrorCode.NONE, 0)
        plan = FetchPlan([wanted], 500, 1, 1 << 20, False, node, True, epoch)
        self.followers.begin(plan, lambda _wanted: self.one, node)
        return plan.wanted[0].error_code

    async def pass_time(self, ms: float) -> None:
        await self.clock.advance(ms)
        await quiet()

    async def stored(self) -> tuple[StatePayload, int]:
        """The state in the store and its version."""
        session = await self.store.connect()
        found = await session.get(STATE)
        state = paths.parse_state(found.data)
        assert state is not None
        return state, found.stat.version

    async def store_state(self, state: StatePayload) -> None:
        """Writes the state as another process, a controller, would."""
        session = await self.store.connect()
        await session.set(STATE, paths.build_state(state))

    async def announced(self) -> list[object]:
        """The partitions of every announcement so far."""
        session = await self.store.connect()
        found: list[object] = []
        for name in await session.children(paths.ISR_CHANGES):
            data = (await session.get(f"{paths.ISR_CHANGES}/{name}")).data
            found.append(paths.parse_partition_list(data))
        return found


async def open_site(
    *isr: int, replicas: tuple[int, ...] = (1, 2, 3), min_insync: int = 1
) -> LeaderSite:
    """Broker 1 leads in epoch 5 with that ISR, connected to the store."""
    clock = HandClock()
    store = await EmbeddedStore.open(MemoryDisk(), clock, Tasks().spawn, STORE)
    site = LeaderSite(clock, store)
    await site.prepare(isr)
    await site.enter()
    await site.lead(
        PartitionLeadership(1, EPOCH, 0, isr, replicas, controller_epoch=CONTROLLER_EPOCH),
        min_insync,
    )
    return site
