"""Simulated clients of a cluster: they learn the leaders from any broker, and refresh them.

``ClusterClient`` is one process; ``view`` is its way to one partition, which looks like the client
of a single broker to the workload: its connection is that to the leader as far as it is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.ports import Address
from tests.simulation.clients.client import RETRIABLE, Client, Refused
from tests.simulation.clients.wire import Gone, Wire, open_wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.protocol.ports import Ports
    from tests.simulation.history import History, Partition

METADATA_VERSION = 7


class Leader(NamedTuple):
    """The leader of a partition, as a broker has reported it."""

    node_id: int
    leader_epoch: int


class ClusterClient(Client):
    """Speaks to any broker for what any broker answers; ``view`` to the leader."""

    def __init__(
        self, ports: Ports, bootstrap: Sequence[Address], history: History, name: str
    ) -> None:
        super().__init__(ports, bootstrap[0], history, name)
        self.leaders: dict[Partition, Leader] = {}
        self.controller_id = -1
        self._bootstrap = list(bootstrap)
        self._brokers: dict[int, Address] = {}
        self._wires: dict[Address, Wire] = {}

    async def wire(self) -> Wire:
        """Connection to some broker; another one after each that has failed. Raises Gone."""
        if self._wire is None or self._wire.closed:
            self._address = self.random.choice(self._bootstrap)
        return await super().wire()

    def view(self, partition: Partition) -> PartitionClient:
        """This client as one that speaks to the leader of that partition."""
        return PartitionClient(self, partition)

    def address_of(self, node_id: int) -> Address | None:
        """Address of that broker by the latest metadata, or None."""
        return self._brokers.get(node_id)

    async def wire_to(self, node_id: int) -> Wire:
        """Connection to that broker. Raises Gone."""
        address = self._brokers.get(node_id)
        if address is None:
            raise Gone(f"broker {node_id} is not known")
        wire = self._wires.get(address)
        if wire is None or wire.closed:
            self._connections += 1
            name = f"{self.name}#{self._connections}"
            wire = await open_wire(self.ports, address, self.history, name)
            # Another task of this process may have been faster.
            known = self._wires.get(address)
            if known is not None and not known.closed:
                wire.close()
                return known
            self._wires[address] = wire
        return wire

    async def leader_of(self, partition: Partition) -> int | None:
        """The current leader, None if it is unknown."""
        try:
            await self.refresh([partition[0]])
        except Gone:
            self.disconnect()
            return None
        known = self.leaders.get(partition)
        return None if known is None or known.node_id < 0 else known.node_id

    async def refresh(self, topics: Sequence[str]) -> None:
        """Refresh the leaders from some broker; raises Gone when none answers."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        response = await (await self.wire()).call(request, ApiKey.METADATA, METADATA_VERSION)
        self._brokers = {
            broker.node_id: Address(broker.host, broker.port) for broker in response.brokers
        }
        self.controller_id = response.controller_id
        for topic in response.topics:
            for found in topic.partitions:
                partition = (topic.name, found.partition_index)
                known = self.leaders.get(partition)
                # An older answer is not believed, as long as the topic is the same (KIP-320).
                if known is None or found.leader_epoch >= known.leader_epoch:
                    self.leaders[partition] = Leader(found.leader_id, found.leader_epoch)

    async def controller(self) -> Wire:
        """Connection to the controller, as far as it is known. Raises Gone."""
        await self.refresh([])
        if self.controller_id < 0:
            raise Gone("nobody is the controller")
        return await self.wire_to(self.controller_id)

    async def ask_controller(self, message: object, api_key: ApiKey, api_version: int) -> object:
        """One try; None when the outcome is unknown."""
        try:
            return await (await self.controller()).call(message, api_key, api_version)
        except Gone:
            await self.pause()
            # The broker that was asked may be the one that is cut off.
            self.disconnect()
            return None

    async def make_topic(
        self, topic: str, partitions: int, replicas: int, settings: Mapping[str, str]
    ) -> None:
        """Until it is there. Raises Refused."""
        configs = [CreatableTopicConfig(name, value) for name, value in settings.items()]
        request = CreateTopicsRequest(
            topics=[CreatableTopic(topic, partitions, replicas, configs=configs)], timeout_ms=2_000
        )
        while True:
            response = await self.ask_controller(
                request, ApiKey.CREATE_TOPICS, self.versions.create_topics
            )
            if response is not None:
                result = response.topics[0]  # type: ignore[attr-defined]
                code = ErrorCode(result.error_code)
                if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    return
                if code not in (*RETRIABLE, ErrorCode.INVALID_REPLICATION_FACTOR):
                    raise Refused(code, f"topic {topic}: {result.error_message}")
            await self.pause()


class PartitionClient(Client):
    """Made by ``ClusterClient.view``; shares its connections, versions and knowledge."""

    def __init__(self, cluster: ClusterClient, partition: Partition) -> None:
        super().__init__(cluster.ports, cluster._bootstrap[0], cluster.history, cluster.name)
        self.versions = cluster.versions
        self._cluster = cluster
        self._partition = partition
        self._is_stale = True
        # A replica that consumers were sent to (KIP-392); forgotten when anything goes wrong.
        self.read_from: int | None = None

    @property
    def leader_epoch(self) -> int:
        """The leader epoch in this client's metadata, -1 if it has none."""
        known = self._cluster.leaders.get(self._partition)
        return -1 if known is None else known.leader_epoch

    async def wire(self) -> Wire:
        """Connection to the leader. Raises Gone, also when there is no leader."""
        cluster = self._cluster
        if self._is_stale:
            try:
                await cluster.refresh([self._partition[0]])
            except Gone:
                cluster.disconnect()
                raise
            self._is_stale = False
        known = cluster.leaders.get(self._partition)
        if known is None or known.node_id < 0:
            self._is_stale = True
            raise Gone(f"nobody leads {self._partition}")
        try:
            return await cluster.wire_to(
                known.node_id if self.read_from is None else self.read_from
            )
        except Gone:
            self._is_stale = True
            self.read_from = None
            raise

    def disconnect(self) -> None:
        """Leave the connections to the process they belong to."""

    async def pause(self) -> None:
        """After an error, refresh the metadata after a short pause."""
        self._is_stale = True
        self.read_from = None
        # Brokers differ in what they know; so the next one is asked, now and then.
        if self.random.chance(0.3):
            self._cluster.disconnect()
        await super().pause()
