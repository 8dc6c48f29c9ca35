"""One broker's share of the cluster's machinery over an embedded store, without network and logs.

The replicas are a recorder that says what it was told; everything else is the real thing.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import defaultdict
from typing import TYPE_CHECKING

from ottla.broker.administration.cluster_admin import ClusterAdmin
from ottla.broker.administration.producer_ids import ProducerIds
from ottla.broker.controlling.controller import ControllerCandidate
from ottla.broker.controlling.controllership import ControllerParts
from ottla.broker.engine.tasks import Tasks
from ottla.broker.membership.lifecycle import Lifecycle, Registration
from ottla.broker.metadata.config_watch import ConfigWatch
from ottla.broker.metadata.features import FinalizedFeatures
from ottla.broker.metadata.metadata import MetadataCache
from ottla.broker.partitions.control import ControlReceiver
from ottla.coordinator.configs.config_changes import check_topic_configs
from ottla.coordinator.controller.specs import ControllerSettings
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.coordinator.store.paths import EndpointPayload
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from ottla.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.partitions.control import ControlChannel, ControlRequest, ControlResponse
    from ottla.coordinator.metadata.image import MetadataImage
    from ottla.coordinator.store.store import Store
    from ottla.protocol.ports import Disk, Random

DIRECTORY = "/data/store"
TIMEOUT_MS = 5_000.0


class LocalChannel:
    """The control channel of a cluster of one."""

    def __init__(self, node_id: int, receiver: ControlReceiver) -> None:
        self._node_id = node_id
        self._receiver = receiver
        self.on_lost: Callable[[int], object] = lambda _node_id: None

    async def reach(self, node_id: int) -> None:
        """This broker is always there."""

    async def send(self, node_id: int, request: ControlRequest) -> ControlResponse:
        """Carry it out here. Raises KafkaError for any other broker."""
        if node_id != self._node_id:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"no address is known of broker {node_id}"
            )
        return await self._receiver.apply(request)


class HandTimer:
    """A timer of the clock below."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class HandClock:
    """Moves when the test moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._turn = 0
        self._timers: list[tuple[float, int, HandTimer]] = []

    @property
    def timer_count(self) -> int:
        """Those that are still to come."""
        return sum(timer.callback is not None for _due, _turn, timer in self._timers)

    def now_ms(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self.now)

    def call_at(self, deadline_ms: float, callback: Callable[[], object]) -> HandTimer:
        timer = HandTimer(callback)
        self._turn += 1
        heapq.heappush(self._timers, (deadline_ms, self._turn, timer))
        return timer

    async def sleep(self, delay_ms: float) -> None:
        event = asyncio.Event()
        self.call_at(self.now + delay_ms, event.set)
        await event.wait()

    async def advance(self, delay_ms: float) -> None:
        """Let the time pass and everything happen that is due."""
        self.now += delay_ms
        while self._timers and self._timers[0][0] <= self.now:
            timer = heapq.heappop(self._timers)[2]
            if timer.callback is not None:
                timer.callback()
            await quiet()
        await quiet()


class CountingRandom:
    """Every token is another one."""

    def __init__(self, start: int = 0) -> None:
        self._count = start

    def child(self, name: str) -> Random:
        raise NotImplementedError

    def random(self) -> float:
        return 0.5

    def below(self, limit: int) -> int:
        return 0

    def token(self, count: int) -> bytes:
        self._count += 1
        return (b"t" + self._count.to_bytes(4, "big")).ljust(count, b"x")


class Replicas:
    """Says yes to everything, unless told otherwise, and remembers."""

    def __init__(self) -> None:
        self.epochs: dict[tuple[str, int], int] = {}
        self.leaders: dict[tuple[str, int], int] = {}
        self.deleted: list[tuple[str, int]] = []
        self.requests: list[LeaderAndIsrRequest | StopReplicaRequest] = []
        self.errors: dict[tuple[str, int], ErrorCode] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.metadata: MetadataCache | None = None
        # Closed by a test that wants role changes to take their time.
        self.door = asyncio.Event()
        self.door.set()

    async def apply_leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        await self.door.wait()
        self.requests.append(request)
        response = LeaderAndIsrResponse()
        for topic in request.topic_states:
            errors: dict[int, ErrorCode] = defaultdict(lambda: ErrorCode.NONE)
            for state in topic.partition_states:
                place = (topic.topic_name, state.partition_index)
                errors[state.partition_index] = self.errors.get(place, ErrorCode.NONE)
                self.epochs[place] = state.leader_epoch
                self.leaders[place] = state.leader
            if self.metadata is not None:
                known = self.metadata.config("topics", topic.topic_name)
                self.configs[topic.topic_name] = dict(known)
            response.topics.append(
                LeaderAndIsrTopicError(
                    topic.topic_id,
                    [
                        LeaderAndIsrPartitionError("", index, error)
                        for index, error in errors.items()
                    ],
                )
            )
        return response

    async def drop_moved(self, image: MetadataImage) -> None:
        """What moved is remembered as deleted by the requests alone."""

    async def apply_stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        self.requests.append(request)
        for topic in request.topic_states:
            for state in topic.partition_states:
                self.epochs.pop((topic.topic_name, state.partition_index), None)
                self.deleted.append((topic.topic_name, state.partition_index))
        return StopReplicaResponse()


class BrokerNode:
    """Wired as the server wires it."""

    def __init__(
        self,
        store: Store,
        node_id: int = 1,
        *,
        clock: HandClock | None = None,
        settings: ControllerSettings | None = None,
        random_start: int = 0,
        channel: ControlChannel | None = None,
    ) -> None:
        self.clock = clock or HandClock()
        self.crashes: list[str] = []
        self.tasks = Tasks(lambda name, _error: self.crashes.append(name))
        self.node_id = node_id
        self.replicas = Replicas()
        random = CountingRandom(random_start + node_id * 1_000_000)
        self.metadata = self.replicas.metadata = MetadataCache(self.clock)
        self.configs = ConfigWatch(self.metadata, self.tasks)
        self.receiver = ControlReceiver(self.metadata, self.replicas, self.configs, self.tasks)
        self.lifecycle = Lifecycle(store, self.clock, random, self.tasks, 18_000)
        self.lifecycle.on_registered = self._on_registered
        self.parts = ControllerParts(
            settings or ControllerSettings(),
            check_topic_configs,
            channel or LocalChannel(node_id, self.receiver),
            self.clock,
            random,
            self.tasks,
        )
        self.candidate = ControllerCandidate(node_id, self.metadata, self.parts)
        self.features = FinalizedFeatures(node_id, self.metadata, self.clock, self.tasks)
        self.producer_ids = ProducerIds(node_id, lambda: self.lifecycle.session)
        self.admin = ClusterAdmin(
            self.candidate,
            self.lifecycle,
            self.metadata,
            self.configs,
            self.producer_ids,
            self.clock,
            random,
        )

    def _on_registered(self, broker_epoch: int) -> None:
        self.receiver.broker_epoch = broker_epoch

    async def start(self, clean_stop_epoch: int = -1, home: str = "") -> None:
        """Join, register, and wait until the controller has spoken."""
        cluster_id = await self.lifecycle.join()
        self.metadata.begin(cluster_id, self.lifecycle.controller_epoch_at_start)
        endpoint = EndpointPayload("PLAINTEXT", "localhost", 9092 + self.node_id, "PLAINTEXT")
        await self.lifecycle.register(
            Registration(self.node_id, (endpoint,), None, clean_stop_epoch, home),
            (self.configs, self.candidate, self.features),
        )

    async def ready(self) -> None:
        """Wait for the controller's first words."""
        async with asyncio.timeout(60):
            assert await self.metadata.wait_until_complete(TIMEOUT_MS)

    async def stop(self) -> int:
        """Leaves the cluster as a controlled stop does; returns the epoch for the clean-stop
        mark."""
        await self.lifecycle.leave()
        await self.kill()
        return self.lifecycle.broker_epoch

    async def kill(self) -> None:
        """End every task without any farewell."""
        await self.tasks.stop()
        assert self.crashes == []


async def open_node(
    disk: Disk, clean_stop_epoch: int = -1, settings: ControllerSettings | None = None
) -> BrokerNode:
    """A single broker on that disk, as far as being the controller of itself."""
    tasks, clock = Tasks(), HandClock()
    store = await EmbeddedStore.open(disk, clock, tasks.spawn, DIRECTORY)
    life = disk.open(f"{DIRECTORY}/store.journal").size_bytes
    node = BrokerNode(store, clock=clock, settings=settings, random_start=life * 1000)
    await node.start(clean_stop_epoch)
    await node.ready()
    return node


async def quiet() -> None:
    """Let everything run that can run."""
    for _ in range(200):
        await asyncio.sleep(0)
