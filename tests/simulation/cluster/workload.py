"""Producers and consumers of a cluster: those of a single broker, with what failover changes.

A deposed leader answers until it learns of its successor. So it may have refused the sequence or
the offset, which is no proof of a loss: the final logs are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode
from tests.simulation.clients.client import EARLIEST
from tests.simulation.clients.consumers import Consumer
from tests.simulation.clients.producers import Kind, Producer
from tests.simulation.cluster.evidence import ClusterHistory
from tests.simulation.history import Fate

if TYPE_CHECKING:
    from ottla.protocol.messages.fetch import FetchRequest
    from tests.simulation.clients.producers import Outgoing
    from tests.simulation.cluster.client import PartitionClient
    from tests.simulation.history import Partition

EPOCHS_FROM_VERSION = 9
RACKS_FROM_VERSION = 11


class ClusterProducer(Producer):
    """acks=1 promises next to nothing across a failover: such a write's fate stays unknown."""

    def __init__(self, client: PartitionClient, partition: Partition, kind: Kind, pace_ms: float):
        super().__init__(client, partition, kind, pace_ms=pace_ms)
        self.fenced = 0
        assert isinstance(client.history, ClusterHistory)
        self._evidence = client.history

    async def write_once(self) -> None:
        """One batch, until it is acknowledged."""
        turns = iter((True, True))
        await self.run(lambda: next(turns, False))

    def _acknowledge(self, outgoing: Outgoing, base_offset: int | None) -> None:
        if self.kind is not Kind.PLAIN:
            super()._acknowledge(outgoing, base_offset)
            last = outgoing.writes[-1].offset
            if last is not None:
                self._evidence.acknowledged.append((self._partition, last))
        else:
            self._give_up(outgoing, Fate.UNKNOWN)

    def _note_fencing(self, code: ErrorCode) -> None:
        self.fenced += 1


class ClusterConsumer(Consumer):
    """Reads one partition from its leader; young clients fence their fetches (KIP-320)."""

    def __init__(self, client: PartitionClient, partition: Partition, rack: str = "") -> None:
        super().__init__(client, [partition])
        self._view = client
        self._rack = rack

    def _request(self, wait_ms: int) -> FetchRequest:
        request = super()._request(wait_ms)
        if self._view.versions.fetch >= EPOCHS_FROM_VERSION:
            request.topics[0].partitions[0].current_leader_epoch = self._view.leader_epoch
        if self._view.versions.fetch >= RACKS_FROM_VERSION:
            request.rack_id = self._rack
        return request

    async def _take(self, partition: Partition, found: Any, asked: int) -> bool:
        if found.error_code == ErrorCode.NONE and found.preferred_read_replica >= 0:
            self._view.read_from = found.preferred_read_replica
            return True
        return await super()._take(partition, found, asked)

    async def _reset(self, partition: Partition, asked: int) -> None:
        await self._client.pause()
        start = await self._client.list_offset(partition, EARLIEST, told=False)
        if self._positions[partition] < start:
            self._positions[partition] = start
