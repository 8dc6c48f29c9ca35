"""Several brokers in one process over one embedded store, with connections that can fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.tasks import Tasks
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.coordinator.store import paths
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.protocol.errors import ErrorCode
from tests.broker.support.node import DIRECTORY, TIMEOUT_MS, BrokerNode, HandClock, quiet
from tests.coordinator.store.flaky import FlakySession, FlakyStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.administration.cluster_admin import TopicSpec
    from ottla.broker.partitions.control import ControlRequest, ControlResponse
    from ottla.coordinator.controller.specs import ControllerSettings
    from ottla.protocol.ids import TopicPartition


class Cluster:
    """Several brokers over one store; the controller reaches them directly."""

    def __init__(
        self, store: EmbeddedStore, clock: HandClock, settings: ControllerSettings | None = None
    ) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock
        self.nodes: dict[int, BrokerNode] = {}
        self.flaky: dict[int, FlakyStore] = {}
        self.dead: set[int] = set()
        self.on_lost: Callable[[int], object] = lambda _node_id: None

    async def reach(self, node_id: int) -> None:
        if node_id in self.dead or node_id not in self.nodes:
            raise ConnectionRefusedError(node_id)

    async def send(self, node_id: int, request: ControlRequest) -> ControlResponse:
        if node_id in self.dead or node_id not in self.nodes:
            raise ConnectionRefusedError(node_id)
        return await self.nodes[node_id].receiver.apply(request)

    async def start(self, node_id: int, clean_stop_epoch: int = -1, home: str = "") -> BrokerNode:
        flaky = self.flaky[node_id] = FlakyStore(self.store)
        life = self.store.read_tree().last_zxid
        node = BrokerNode(
            flaky,
            node_id,
            clock=self.clock,
            settings=self.settings,
            random_start=life * 1000,
            channel=self,
        )
        self.nodes[node_id] = node
        self.dead.discard(node_id)
        await node.start(clean_stop_epoch, home)
        await quiet()
        return node

    async def kill(self, node_id: int) -> None:
        """The process is gone; the store notices when the session runs out."""
        self.dead.add(node_id)
        await self.nodes[node_id].kill()

    async def expire(self, node_id: int) -> None:
        await self.store.expire(self.session(node_id).session_id)
        await quiet()

    def session(self, node_id: int) -> FlakySession:
        return self.flaky[node_id].sessions[-1]

    async def leader_writes(self, item: TopicPartition, isr: tuple[int, ...]) -> None:
        """What a leader does to change its ISR, announcement and all."""
        await self.write_isr(item, isr)
        session = self.session(min(self.nodes.keys() - self.dead))
        await session.create(
            paths.ISR_CHANGE_PREFIX, paths.build_partition_list([item]), sequential=True
        )
        await quiet()

    async def write_isr(self, item: TopicPartition, isr: tuple[int, ...]) -> None:
        """Writes the ISR to the store without a notification to the brokers."""
        session = self.session(min(self.nodes.keys() - self.dead))
        node = await session.get(paths.state(*item))
        state = paths.parse_state(node.data)
        assert state is not None
        data = paths.build_state(state._replace(isr=isr))
        await session.set(paths.state(*item), data, node.stat.version)

    async def create(self, *specs: TopicSpec) -> None:
        """Topics, through the controller."""
        node = self.nodes[self.controllers()[0]]
        results = await node.admin.create_topics(specs, validate_only=False, timeout_ms=TIMEOUT_MS)
        assert [result.error_code for result in results] == [ErrorCode.NONE] * len(specs)
        await quiet()

    def controllers(self) -> list[int]:
        return [
            node_id
            for node_id, node in self.nodes.items()
            if node_id not in self.dead and node.candidate.controllership is not None
        ]


async def open_cluster(*node_ids: int, settings: ControllerSettings | None = None) -> Cluster:
    clock = HandClock()
    store = await EmbeddedStore.open(MemoryDisk(), clock, Tasks().spawn, DIRECTORY)
    cluster = Cluster(store, clock, settings)
    for node_id in node_ids:
        await cluster.start(node_id)
    return cluster
