"""Simulated operators of a cluster: one moves partitions and leaders, one creates and deletes
topics, one deletes records.

Nothing is demanded of a single request: its answer may be lost, and the broker that is asked may be
a former controller. What must hold is judged when all is calm: moves have ended, and each topic
whose outcome was always known exists or not as it should, with all that was written to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.simulation.clients.admins import Trimmer
from tests.simulation.clients.client import EARLIEST, LATEST
from tests.simulation.clients.producers import Kind
from tests.simulation.cluster.workload import ClusterProducer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.cluster.client import ClusterClient
    from tests.simulation.history import Partition

TIMEOUT_MS = 2_000
BATCH_RECORDS_MAX = 4


class Mover:
    """Moves partitions to other brokers, gives up moves, and elects preferred leaders."""

    def __init__(
        self, client: ClusterClient, partitions: list[Partition], brokers: int, replicas: int
    ) -> None:
        self._client = client
        self._random = client.random
        self._partitions = partitions
        self._brokers = list(range(brokers))
        self._replicas = replicas

    async def run(self, go_on: Callable[[], bool]) -> None:
        """Until told to stop."""
        while go_on():
            await self._client.ports.clock.sleep(self._random.exponential(1_500.0))
            if self._random.chance(0.3):
                await self._elect()
            else:
                await self._move()

    async def _move(self) -> None:
        topic, number = self._random.choice(self._partitions)
        replicas = self._random.sample(self._brokers, self._replicas)
        wanted = ReassignablePartition(number, None if self._random.chance(0.15) else replicas)
        await self._client.ask_controller(
            AlterPartitionReassignmentsRequest(
                timeout_ms=TIMEOUT_MS, topics=[ReassignableTopic(topic, [wanted])]
            ),
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            self._random.below(2),
        )

    async def _elect(self) -> None:
        topic, number = self._random.choice(self._partitions)
        await self._client.ask_controller(
            ElectLeadersRequest(
                topic_partitions=[TopicPartitions(topic, [number])], timeout_ms=TIMEOUT_MS
            ),
            ApiKey.ELECT_LEADERS,
            self._random.below(3),
        )


class ClusterTrimmer(Trimmer):
    """Deletes records at the leaders: up to the high watermark, or up to a place before it.

    A leader that has been deposed, or a follower that cannot be asked, makes an outcome unknown."""

    def __init__(self, client: ClusterClient, partitions: list[Partition]) -> None:
        super().__init__(client, partitions)
        self._views = {one: client.view(one) for one in partitions}

    async def _delete_records(self, partition: Partition, offset: int) -> Any:
        view = self._views[partition]
        topic = DeleteRecordsTopic(partition[0], [DeleteRecordsPartition(partition[1], offset)])
        response = await view.once(
            DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS),
            ApiKey.DELETE_RECORDS,
            view.versions.delete_records,
        )
        found = None if response is None else response.topics[0].partitions[0]
        if found is None or found.error_code != ErrorCode.NONE:
            await view.pause()
        return found


async def trim(
    partitions: list[Partition], go_on: Callable[[], bool], client: ClusterClient
) -> None:
    """Delete records until told to stop."""
    await ClusterTrimmer(client, partitions).run(go_on)


class ClusterKeeper:
    """Makes, fills, grows and removes topics, the same names again and again.

    A name is used again only as long as every answer about it has come. Its client has a history of
    its own: these topics are not read in the end."""

    def __init__(self, client: ClusterClient, replicas: int) -> None:
        self._client = client
        self._random = client.random
        self._replicas = replicas
        self._names_used = 0
        # Name -> batches it has for certain, or None when the topic is certainly gone.
        self._known: dict[str, int | None] = {}

    async def run(self, go_on: Callable[[], bool]) -> None:
        """Until told to stop; what is known then must be true for ever."""
        while go_on():
            await self._client.ports.clock.sleep(self._random.exponential(700.0))
            if len(self._known) < 2:
                self._names_used += 1
                self._known[f"extra-{self._names_used}"] = None
            name = self._random.choice(list(self._known))
            if self._known[name] is None:
                await self._create(name)
            elif self._random.chance(0.4):
                await self._append(name)
            elif self._random.chance(0.3):
                await self._grow(name)
            else:
                await self._delete(name)

    async def verify(self) -> None:
        """Check the topics when all is calm. A recreated topic starts empty (C-22)."""
        for name, count in self._known.items():
            partition = (name, 0)
            await self._client.refresh([name])
            exists = self._client.leaders.get(partition) is not None
            if exists != (count is not None):
                self._client.history.surprises.append(
                    f"topic {name} is {'back' if exists else 'gone'}, known as {count}"
                )
            if not exists or not count:
                continue
            view = self._client.view(partition)
            start = await view.list_offset(partition, EARLIEST, told=False)
            end = await view.list_offset(partition, LATEST, told=False)
            if start or not count <= end <= BATCH_RECORDS_MAX * count:
                self._client.history.surprises.append(
                    f"topic {name} has {start} to {end}, {count} batches were written to it"
                )

    async def _create(self, name: str) -> None:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name, 1, self._replicas)], timeout_ms=TIMEOUT_MS
        )
        version = self._client.versions.create_topics
        code = _code(await self._client.ask_controller(request, ApiKey.CREATE_TOPICS, version))
        self._settle(name, code, 0)

    async def _append(self, name: str) -> None:
        known = self._known[name]
        assert known is not None
        producer = ClusterProducer(
            self._client.view((name, 0)), (name, 0), Kind.IDEMPOTENT, pace_ms=50.0
        )
        await producer.write_once()
        self._known[name] = known + 1

    async def _grow(self, name: str) -> None:
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name, 2 + self._random.below(2))], timeout_ms=TIMEOUT_MS
        )
        await self._client.ask_controller(request, ApiKey.CREATE_PARTITIONS, self._random.below(4))

    async def _delete(self, name: str) -> None:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)
        version = self._client.versions.delete_topics
        response: Any = await self._client.ask_controller(request, ApiKey.DELETE_TOPICS, version)
        code = None if response is None else ErrorCode(response.responses[0].error_code)
        self._settle(name, code, None)

    def _settle(self, name: str, code: ErrorCode | None, outcome: int | None) -> None:
        if code is not ErrorCode.NONE:
            # Not known any more, and never asked about again.
            del self._known[name]
            return
        self._known[name] = outcome
        self._client.leaders.pop((name, 0), None)


def _code(response: Any) -> ErrorCode | None:
    return None if response is None else ErrorCode(response.topics[0].error_code)
